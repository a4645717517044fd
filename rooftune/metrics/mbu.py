"""Model bandwidth utilization: bytes that steps had to move over what the memory could move while they ran."""

from __future__ import annotations

from rooftune.arithmetic import kv_bytes_per_token, model_shape, step_bytes
from rooftune.errors import WrongInput
from rooftune.metrics.contract import Metric, MetricContext
from rooftune.metrics.roofline import facts_of
from rooftune.store.run import MetricValue


def _mbu(context: MetricContext) -> MetricValue:
    """Σ bytes that each step must move / (time in steps × probed bandwidth at the working set).

    Bytes: all weights that a step reads, the KV of its rows, the KV it writes (`rooftune.arithmetic.step_bytes`).
    The working set is the weights and the KV in use in the mean step.
    """
    facts = facts_of(context)
    if isinstance(facts, str):
        return MetricValue("mbu", None, "share", reason=facts)
    weights = facts.model.get("weight_bytes")
    per_token = facts.model.get("kv_bytes_per_token")
    if not weights or not per_token:
        return MetricValue("mbu", None, "share", reason="the server does not tell its weight and KV bytes")
    try:
        shape = model_shape(facts.config)
    except WrongInput as problem:
        return MetricValue("mbu", None, "share", reason=str(problem))
    element = float(per_token) / kv_bytes_per_token(shape, 1.0)
    moved = 0.0
    contexts = 0.0
    for step in context.steps:
        new, rows = int(step.get("prefill_tokens", 0)), int(step.get("decode_rows", 0))
        decode, before = _contexts(step, new, rows)
        contexts += decode + before
        moved += step_bytes(
            shape,
            float(weights),
            rows,
            decode,
            prefill_tokens=new,
            prefill_context=before,
            kv_element_bytes=element,
        )
    working_set = float(weights) + contexts / len(context.steps) * float(per_token)
    return MetricValue("mbu", moved / (facts.step_seconds * facts.roofs.bandwidth_at(working_set)), "share")


def _contexts(step: dict[str, float], new: int, rows: int) -> tuple[float, float]:
    """Cached tokens that a step's decode rows read, and that its prompt chunks read.

    ``decode_context`` and ``prefill_context`` sum the context over the step's tokens; a chunk reads its sequence's
    cached tokens once, not once a token, and the keys of its own tokens are not read from the cache. A log without
    them tells ``context_tokens``, which is the decode rows' where the step has no prompt tokens.
    """
    if "decode_context" not in step:
        return (step.get("context_tokens", 0.0), 0.0) if rows and not new else (0.0, 0.0)
    before = step.get("prefill_context", 0.0) / new - (new + 1) / 2 if new else 0.0
    return step["decode_context"], max(0.0, before)


METRICS = (
    Metric(
        "mbu",
        "share",
        "higher",
        "bytes that steps had to move / (time in steps × probed bandwidth at the working set)",
        "the model's configuration, the step log and the roofs of the server's device",
        _mbu,
    ),
)
