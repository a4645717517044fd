"""Model FLOPs utilization: useful operations over what the device could do while steps ran."""

from __future__ import annotations

from rooftune.arithmetic import model_shape, useful_flops
from rooftune.errors import WrongInput
from rooftune.metrics.contract import Metric, MetricContext
from rooftune.metrics.roofline import facts_of
from rooftune.metrics.samples import offered
from rooftune.store.run import MetricValue


def _mfu(context: MetricContext) -> MetricValue:
    """Σ useful FLOPs of the answered requests / (time in steps × probed peak).

    Useful: no recomputation, padding or prefix hits, the head only where a token was sampled
    (`rooftune.arithmetic.useful_flops`). The peak is that of the type executed: the model's ``compute_kinds`` where
    the server tells them, else float32.
    """
    facts = facts_of(context)
    if isinstance(facts, str):
        return MetricValue("mfu", None, "share", reason=facts)
    try:
        shape = model_shape(facts.config)
        kinds = facts.model.get("compute_kinds")
        peak = facts.roofs.peak(kinds) if kinds else facts.roofs.float32_peak()
    except WrongInput as problem:
        return MetricValue("mfu", None, "share", reason=str(problem))
    flops = 0.0
    for record in offered(context.records):
        if not record.succeeded:
            continue
        if record.prompt_tokens is None or record.output_tokens is None:
            return MetricValue("mfu", None, "share", reason="the server did not tell its token counts")
        flops += useful_flops(shape, record.prompt_tokens, record.cached_tokens or 0, record.output_tokens)
    if flops == 0.0:
        return MetricValue("mfu", None, "share", reason="no request was answered")
    return MetricValue("mfu", flops / (facts.step_seconds * peak), "share")


METRICS = (
    Metric(
        "mfu",
        "share",
        "higher",
        "useful FLOPs of answered requests / (time in steps × probed peak of the type executed)",
        "the model's configuration, token counts, the step log and the roofs of the server's device",
        _mfu,
    ),
)
