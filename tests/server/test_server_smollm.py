"""The packaged model behind the official client: a sentence that a person would accept, and the same one streamed."""

from __future__ import annotations

from typing import Any

import pytest

from rooftune.engine.model.load import load_runner
from tests.server.hosting import host


@pytest.mark.model
def test_smollm_answers_a_question() -> None:
    messages: list[Any] = [{"role": "user", "content": "What is the capital of France?"}]
    with host(load_runner("smollm2-135m", "reference", 2)) as hosted:
        ask = hosted.client().chat.completions.create
        whole = ask(model="smollm2-135m", messages=messages, max_tokens=16, temperature=0)
        assert "Paris" in (whole.choices[0].message.content or "")
        assert whole.choices[0].finish_reason == "stop"
        chunks = ask(model="smollm2-135m", messages=messages, max_tokens=16, temperature=0, stream=True)
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        assert text == whole.choices[0].message.content and "<|" not in text
        again = ask(model="smollm2-135m", messages=messages, max_tokens=16, temperature=0, stop=["Paris"])
        assert again.choices[0].message.content == (whole.choices[0].message.content or "").split("Paris")[0]
        assert again.usage is not None and again.usage.prompt_tokens_details is not None
        assert (again.usage.prompt_tokens_details.cached_tokens or 0) >= 16
