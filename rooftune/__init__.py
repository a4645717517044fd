"""Rooftune: from a goal for a served LLM to a proven faster, cheaper configuration."""

from __future__ import annotations

__version__ = "0.1.0"
