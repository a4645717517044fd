"""Time to first token."""

from rooftune.metrics.family import request_family
from rooftune.metrics.samples import ttft_of

METRICS = request_family(
    "ttft",
    "scheduled time to the arrival of the first reasoning, content or tool-call chunk (an empty role chunk is none)",
    "streamed answers",
    ttft_of,
)
