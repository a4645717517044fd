"""The real path: tiny models on disk, both sides in a child process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rooftune.errors import RooftuneError
from rooftune.quality.evaluate import compare_local
from rooftune.spec.goal import Goal
from tests.model.tiny import Tiny, write_hugging_face

GOALS = (Goal("kl_mean", "<=", 0.02, "plain"), Goal("top1_agreement", ">=", 0.9, "share"))


def damaged_copy(source: Path, target: Path, share: float) -> None:
    """The same model with a share of all matrix entries replaced by noise of their own size."""
    import shutil

    from safetensors.numpy import load_file, save_file

    shutil.copytree(source, target)
    file = next(target.glob("*.safetensors"))
    tensors = load_file(file)
    random = np.random.default_rng(4)
    for name, tensor in tensors.items():
        if tensor.ndim == 2:
            hit = random.random(tensor.shape) < share
            noise = (3.0 * tensor.std() * random.standard_normal(tensor.shape)).astype(tensor.dtype)
            tensors[name] = np.where(hit, noise, tensor)
    save_file(tensors, file)


@pytest.mark.slow
def test_damage_of_one_per_cent_is_found_and_scheduling_changes_are_not_damage(tmp_path: Path) -> None:
    model = write_hugging_face(tmp_path / "tiny", Tiny(maximum_context=512))
    damaged_copy(Path(model), tmp_path / "damaged", 0.01)
    settings = {"weight_kernel": "reference", "slots": 4}
    same = compare_local(str(model), settings, {**settings, "slots": 16})
    assert same.same_weights and same.divergence.kl_mean.value < 1e-5
    assert same.divergence.positions > 1000
    broken = compare_local(str(model), settings, settings, changed_model=str(tmp_path / "damaged"))
    assert not broken.same_weights and broken.floor is not None
    assert broken.divergence.kl_mean.low > 20 * max(broken.floor.kl_mean.value, 1e-7)


@pytest.mark.slow
def test_a_model_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(RooftuneError) as caught:
        compare_local(str(tmp_path / "nothing.gguf"), {}, {})
    assert "\n" not in str(caught.value)
