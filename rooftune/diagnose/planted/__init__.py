"""Planted causes: runs of the simulated engine with a known fault, to measure how often the diagnosis is right."""

from rooftune.diagnose.planted.cases import PLANTED, Case, draw
from rooftune.diagnose.planted.simulated import Machine, SimulatedBench

__all__ = ["PLANTED", "Case", "Machine", "SimulatedBench", "draw"]
