"""Counts against what the models' publishers say. Configurations: `../shared/data/model-configs` (see its MANIFEST)."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from rooftune.arithmetic import kv_bytes_per_token, model_shape, parameters
from rooftune.errors import WrongInput

CONFIGS = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "model-configs"


def config(name: str) -> dict[str, Any]:
    file = CONFIGS / name
    if not file.exists():
        pytest.skip(f"no {file}: the folder of public model configurations is not beside this checkout")
    loaded: dict[str, Any] = json.loads(file.read_text())
    return loaded


# "tensors": sum of the elements of the published safetensors files, as the model's page shows it (exact).
EXACT = {
    "Qwen--Qwen3-1.7B/config.json": 1_720_574_976,
    "Qwen--Qwen3-8B/config.json": 8_190_735_360,
    "Qwen--Qwen3-30B-A3B/config.json": 30_532_122_624,
    "Qwen--Qwen3-32B/config.json": 32_762_123_264,
    "Qwen--Qwen3-235B-A22B/config.json": 235_093_634_560,
    "Qwen--Qwen3-Coder-480B-A35B-Instruct/config.json": 480_154_875_392,
    "qwen3-14b/config.json": 14_768_307_200,
    "qwen2.5-7b-instruct/config.json": 7_615_616_512,
    "codellama-34b-instruct-hf/config.json": 33_743_970_304,
    "frontier/Llama-3.2-1B-Instruct.json": 1_235_814_400,
    "llama-2-7b-hf/config.json": 6_738_415_616,
    "llama-3.1-8b-instruct/config.json": 8_030_261_248,
    "llama-3.1-70b-instruct/config.json": 70_553_706_496,
    "meta-llama--Meta-Llama-3.1-405B/config.json": 405_853_388_800,
    "mistral-nemo-instruct-2407/config.json": 12_247_782_400,
    "mistralai--Mixtral-8x7B-v0.1/config.json": 46_702_792_704,
    "mistralai--Mixtral-8x22B-v0.1/config.json": 140_620_634_112,
    "yi-34b/config.json": 34_388_917_248,
    "deepseek-v2-lite/config.json": 15_706_484_224,
    "hand-transcribed/gemma-2-2b.json": 2_614_341_888,
    "hand-transcribed/gemma-2-9b.json": 9_241_705_984,
    "hand-transcribed/gemma-3-1b-core-fields.json": 999_885_952,
    "hand-transcribed/phi-3-mini-4k-instruct.json": 3_821_079_552,
    "hand-transcribed/phi-4.json": 14_659_507_200,
}

# Rounded totals and active counts in billions from the model card or report named; "tolerance" is their rounding.
ROUNDED = {
    "deepseek-ai--DeepSeek-V3/config.json": (671.0, 37.0, 0.02),  # DeepSeek-V3 technical report (without MTP)
    "deepseek-ai--DeepSeek-R1/config.json": (671.0, 37.0, 0.02),  # model card
    "moonshotai--Kimi-K2-Instruct/config.json": (1000.0, 32.0, 0.03),  # model card: 1T, 32B activated
    "MiniMaxAI--MiniMax-M2.5/config.json": (230.0, 10.0, 0.11),  # model card: 230B, 10B activated
    "XiaomiMiMo--MiMo-V2-Flash/config.json": (309.0, 15.0, 0.04),  # model card: 309B, 15B active
    "zai-org--GLM-5/config.json": (744.0, 40.0, 0.05),  # model card: 744B, 40B active
    "meta-llama--Llama-4-Scout-17B-16E-Instruct/config.json": (
        109.0,
        17.0,
        0.02,
    ),  # card; 109B has the vision part
    "google--gemma-4-26B-A4B/config.json": (25.2, 3.8, 0.01),  # model card: 25.2B, 3.8B active
    "Qwen--Qwen3-30B-A3B/config.json": (30.5, 3.3, 0.02),  # model card
    "Qwen--Qwen3-235B-A22B/config.json": (235.0, 22.0, 0.01),  # model card
    "mistralai--Mixtral-8x7B-v0.1/config.json": (46.7, 12.9, 0.005),  # Mistral's announcement
    "mistralai--Mixtral-8x22B-v0.1/config.json": (141.0, 39.0, 0.005),  # Mistral's announcement
}

WITHOUT_EMBEDDING = {  # Qwen3 model cards: "Number of Parameters (Non-Embedding)", billions
    "Qwen--Qwen3-0.6B/config.json": 0.44,
    "Qwen--Qwen3-1.7B/config.json": 1.4,
    "Qwen--Qwen3-8B/config.json": 6.95,
    "qwen3-14b/config.json": 13.2,
    "Qwen--Qwen3-32B/config.json": 31.2,
    "Qwen--Qwen3-30B-A3B/config.json": 29.9,
    "Qwen--Qwen3-235B-A22B/config.json": 234.0,
}

KV_BYTES_16_BIT = {  # 2 * layers * kv heads * head size * 2 bytes by hand; MLA: layers * (512 + 64) * 2
    "llama-2-7b-hf/config.json": 524_288,
    "llama-3.1-8b-instruct/config.json": 131_072,
    "llama-3.1-70b-instruct/config.json": 327_680,
    "Qwen--Qwen3-32B/config.json": 262_144,
    "deepseek-ai--DeepSeek-V3/config.json": 70_272,
    "apex_plus/mistral_config.json": 32 * 2 * 1 * 128 * 2,  # one key-value head: MQA
}


@pytest.mark.parametrize("name", EXACT)
def test_total_is_exact(name: str) -> None:
    assert parameters(config(name)).total == EXACT[name]


@pytest.mark.parametrize("name", ROUNDED)
def test_total_and_active_within_rounding(name: str) -> None:
    total, active, tolerance = ROUNDED[name]
    counted = parameters(config(name))
    assert counted.total / 1e9 == pytest.approx(total, rel=max(tolerance, 0.01))
    assert counted.active / 1e9 == pytest.approx(active, rel=tolerance)


@pytest.mark.parametrize("name", WITHOUT_EMBEDDING)
def test_without_embedding(name: str) -> None:
    assert parameters(config(name)).without_embedding / 1e9 == pytest.approx(
        WITHOUT_EMBEDDING[name], rel=0.008
    )


@pytest.mark.parametrize(
    ("name", "mlp", "attention", "tables", "active", "total"),
    [  # gpt-oss model card, table 1 (billions); its active count holds the head, not the embedding
        ("openai--gpt-oss-120b/config.json", 114.71, 0.96, 1.16, 5.13, 116.83),
        ("openai--gpt-oss-20b/config.json", 19.12, 0.64, 1.16, 3.61, 20.91),
    ],
)
def test_gpt_oss_by_part(
    name: str, mlp: float, attention: float, tables: float, active: float, total: float
) -> None:
    shape = model_shape(config(name))
    counted = parameters(shape)
    feed = sum(
        x.feed_forward.dense
        + x.feed_forward.vector
        + x.feed_forward.experts * (x.feed_forward.expert_matrix + x.feed_forward.expert_vector)
        for x in shape.layers
    )
    assert feed / 1e9 == pytest.approx(mlp, abs=0.006)
    assert sum(x.attention.matrix + x.attention.vector for x in shape.layers) / 1e9 == pytest.approx(
        attention, abs=0.006
    )
    assert (counted.embedding + counted.head) / 1e9 == pytest.approx(tables, abs=0.006)
    assert (counted.active - counted.embedding) / 1e9 == pytest.approx(active, abs=0.006)
    assert counted.total / 1e9 == pytest.approx(total, abs=0.006)


@pytest.mark.parametrize("name", KV_BYTES_16_BIT)
def test_kv_bytes_per_token(name: str) -> None:
    assert kv_bytes_per_token(config(name), 2.0) == KV_BYTES_16_BIT[name]


@pytest.mark.parametrize(
    ("name", "architecture"),
    [
        ("Qwen--Qwen3.5-27B/config.json", "qwen3_5"),
        ("Qwen--Qwen3.5-35B-A3B/config.json", "qwen3_5_moe"),
        ("nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16/config.json", "nemotron_h"),
    ],
)
def test_hybrid_models_are_refused_by_name(name: str, architecture: str) -> None:
    with pytest.raises(WrongInput, match=f"'{architecture}'"):
        parameters(config(name))


def test_every_config_is_counted_or_refused() -> None:
    if not CONFIGS.exists():
        pytest.skip(f"no {CONFIGS}: the folder of public model configurations is not beside this checkout")
    counted = 0
    for file in CONFIGS.glob("*/*.json"):
        if file.name == "hf_quant_config.json":
            continue
        with contextlib.suppress(WrongInput):
            counted += parameters(json.loads(file.read_text())).total > 0
    assert counted >= 45
