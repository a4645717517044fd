"""Interventions that separate causes, each with its signature stated before it runs."""

from rooftune.diagnose.experiments.contract import Bench, Experiment, Outcome
from rooftune.diagnose.experiments.decoding import BATCH, CONTEXT
from rooftune.diagnose.experiments.first_token import LOW_LOAD, PREFILL, SLOTS
from rooftune.diagnose.experiments.investigate import choose, investigate

EXPERIMENTS: dict[str, Experiment] = {e.name: e for e in (LOW_LOAD, SLOTS, PREFILL, BATCH, CONTEXT)}

__all__ = ["BATCH", "CONTEXT", "EXPERIMENTS", "LOW_LOAD", "PREFILL", "SLOTS", "Bench", "Experiment", "Outcome",
           "choose", "investigate"]  # fmt: skip
