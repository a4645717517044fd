"""The final configuration as a file that `rooftune serve --config` reads."""

from __future__ import annotations

from typing import Any

import yaml

from rooftune.report import words
from rooftune.store.result import Result

CONFIGURATION_FILE = "configuration.yaml"


def export_configuration(result: Result) -> str:
    """YAML with ``model``, ``runtime`` and ``techniques``; the header says what it is and what was proven.

    A header line never holds a line break, so that nothing in a statement can become a key.
    """
    header = [
        f"Rooftune {result.rooftune_version}, {result.created_at}",
        f"Verdict: {result.verdict}{' (partial: ' + str(result.partial_reason) + ')' if result.partial else ''}",
        result.statement,
        "Serve it with: rooftune serve --config THIS_FILE",
    ]
    if result.verdict != "improved":
        header.append("It was not proven better than the baseline.")
    accepted = [t.name for t in result.techniques if t.decision == "accepted"]
    if accepted:
        header.append(f"Accepted: {', '.join(accepted)}")
    document: dict[str, Any] = {
        "model": result.spec.get("model", result.model.get("name")),
        "runtime": _plain(result.spec.get("runtime", {"name": "embedded"})),
        "techniques": _plain(result.final_configuration),
    }
    body = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, default_flow_style=False)
    return "".join(f"# {words.one_line(line)}\n" for line in header) + body


def _plain(value: Any) -> Any:
    """Only what YAML's safe form writes: mappings, lists, text, numbers."""
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
