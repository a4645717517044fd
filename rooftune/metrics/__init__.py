"""Pure functions of request records: a registry, one file a family.

Import from `rooftune.metrics.registry` (METRICS, compute_all) and `rooftune.metrics.pool` (context_of, pooled).
"""
