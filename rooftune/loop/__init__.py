"""The loop: measure, diagnose, select, apply, compare, and again, until goals are met, nothing helps, or the budget is spent."""
