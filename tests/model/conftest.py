"""Fixtures of the model tests. `tests.model.tiny` is importable from any room's tests."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.model.tiny import write_hugging_face

    return write_hugging_face(tmp_path_factory.mktemp("tiny") / "model")


@pytest.fixture(scope="session")
def smollm_path() -> Path:
    """The real GGUF; pulled into the user's cache if it is not there."""
    from rooftune.engine.model.catalogue import locate

    return locate("smollm2-135m").path
