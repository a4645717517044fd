"""Time per output token."""

from rooftune.metrics.family import request_family
from rooftune.metrics.samples import tpot_of

METRICS = request_family(
    "tpot",
    "(last token − first token) / (output tokens − 1) per request; the first token's wait is not in it",
    "streamed answers of two tokens or more, and their token count",
    tpot_of,
)
