"""Every technique of the catalogue at a URL: none is applied, each may be advised."""

from __future__ import annotations

from rooftune.runtimes.contract import Mapping, TechniqueTable
from rooftune.runtimes.embedded.technique_table import TECHNIQUES as KNOWN

_REASON = "a server at a URL is not configured by Rooftune; the technique can be advised, not applied"

TECHNIQUES: TechniqueTable = {name: Mapping(reason=_REASON) for name in KNOWN}
