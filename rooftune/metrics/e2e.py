"""Total response time."""

from rooftune.metrics.family import request_family
from rooftune.metrics.samples import e2e_of

METRICS = request_family("e2e", "scheduled time to the end of the answer", "answers that ended", e2e_of)
