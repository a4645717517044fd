"""What the user asks for: SLO, goals, workload, deployment, price, budget, permissions."""

from rooftune.spec.goal import GOAL_DIMENSIONS, QUALITY_DIMENSIONS, Goal, parse_bound, parse_goal_expression
from rooftune.spec.load import load_spec, parse_spec
from rooftune.spec.model import (
    Arrivals,
    BaselineSpec,
    Budget,
    Configuration,
    Deployment,
    Goals,
    Price,
    Prompts,
    RuntimeSpec,
    Setting,
    Spec,
    Workload,
)
from rooftune.spec.units import Dimension, format_quantity, parse_quantity

__all__ = [
    "GOAL_DIMENSIONS",
    "QUALITY_DIMENSIONS",
    "Arrivals",
    "BaselineSpec",
    "Budget",
    "Configuration",
    "Deployment",
    "Dimension",
    "Goal",
    "Goals",
    "Price",
    "Prompts",
    "RuntimeSpec",
    "Setting",
    "Spec",
    "Workload",
    "format_quantity",
    "load_spec",
    "parse_bound",
    "parse_goal_expression",
    "parse_quantity",
    "parse_spec",
]
