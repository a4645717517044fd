"""A tiny model for servers under test; helpers are shared with the server's tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.model.tiny import write_hugging_face

    return write_hugging_face(tmp_path_factory.mktemp("served") / "tiny")


@pytest.fixture(scope="module")
def hosted(tiny_model: Path) -> Iterator[object]:
    """A tiny random model under Rooftune's defaults."""
    from tests.server.hosting import host

    with host(tiny_model) as running:
        yield running
