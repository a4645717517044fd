"""An answer whose outputs come late, all at once: order, counts and finish reasons must not suffer."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rooftune.engine.contracts import GenerationRequest, RequestOutput, SamplingParameters
from rooftune.engine.limits import QueueFull
from rooftune.engine.model.hugging_face import read_hugging_face
from rooftune.engine.model.source import ModelSource
from rooftune.engine.server.answer import Answer, Plan, choice_seed
from rooftune.engine.server.bridge import Bridge, ClientGone
from rooftune.engine.server.errors import ApiError
from rooftune.engine.server.prompts import TextModel

STOP = frozenset({266})


class Recorder:
    """Stands for the engine (what was submitted and aborted) and for the metrics."""

    def __init__(self, room: int = 8) -> None:
        self.room = room
        self.submitted: list[GenerationRequest] = []
        self.ended: list[str] = []
        self.counted: list[Any] = []

    def submit(self, request: GenerationRequest) -> None:
        if len(self.submitted) >= self.room:
            raise QueueFull("full")
        self.submitted.append(request)

    def abort(self, id: str) -> None:
        self.ended.append(id)

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self.counted.append((name, *arguments))


async def never() -> Any:
    await asyncio.Event().wait()


def setting(model: Path, engine: Recorder, n: int = 1, stops: tuple[str, ...] = ()) -> tuple[Bridge, Answer]:
    stored = read_hugging_face(ModelSource("tiny", model, "hugging_face"))
    text = TextModel("tiny", stored.tokenizer, None, 267, 512, STOP)
    bridge = Bridge()
    bridge.attach(engine, asyncio.get_running_loop())  # type: ignore[arg-type]
    plan = Plan("r", ((1, 2, 3),), (9,), SamplingParameters(1, stop_tokens=STOP), n=n, seed=5, stops=stops)
    return bridge, Answer(plan, text, bridge, engine, 0)  # type: ignore[arg-type]


def output(id: str, text: str, finish: Any = None, **more: Any) -> RequestOutput:
    return RequestOutput(id, tuple(text.encode()), finish, 2, **more)


async def collect(answer: Answer) -> list[list[tuple[int, str, str | None]]]:
    return [
        [(choice.index, piece.text, choice.finish) for choice, piece in step]
        async for step in answer.pieces(never)
    ]


def test_steps_that_come_together_are_one_piece(tiny_model: Path) -> None:
    async def run() -> None:
        engine = Recorder()
        bridge, answer = setting(tiny_model, engine)
        for letter, finish in (("a", None), ("b", None), ("c", "length")):
            bridge.on_step([output("r-0", letter, finish, timings={"queue": 1.0} if finish else {})])
        await asyncio.sleep(0)
        assert await collect(answer) == [[(0, "abc", "length")]]
        assert answer.usage()["completion_tokens"] == 3 and answer.timings() == {"queue": 1.0}
        assert engine.ended == [] and bridge.open == 0

    asyncio.run(run())


def test_a_stop_string_ends_the_request_in_the_engine_and_waits_for_its_last_word(tiny_model: Path) -> None:
    async def run() -> None:
        engine = Recorder()
        bridge, answer = setting(tiny_model, engine, stops=("bc",))
        task = asyncio.create_task(collect(answer))
        for letter in "abcd":
            bridge.on_step([output("r-0", letter)])
            await asyncio.sleep(0.001)
        assert engine.ended == ["r-0"] and not task.done()
        bridge.on_step([RequestOutput("r-0", (), "abort", 2, timings={"decode": 0.5})])
        steps = await asyncio.wait_for(task, 5)
        assert "".join(text for step in steps for _, text, _ in step) == "a"
        assert steps[-1][0][2] == "stop"
        assert answer.usage()["completion_tokens"] == 3 and answer.timings() == {"decode": 0.5}
        assert engine.ended == ["r-0"]

    asyncio.run(run())


def test_choices_end_each_in_their_own_time(tiny_model: Path) -> None:
    async def run() -> None:
        engine = Recorder()
        bridge, answer = setting(tiny_model, engine, n=2)
        assert [request.sampling.seed for request in engine.submitted] == [5, choice_seed(5, 1)]
        bridge.on_step([output("r-0", "x", "length"), output("r-1", "y")])
        bridge.on_step([RequestOutput("r-1", (ord("z"), 266), "stop", 0)])
        assert await collect(answer) == [[(0, "x", "length"), (1, "yz", "stop")]]
        assert answer.usage()["prompt_tokens"] == 3 and answer.usage()["completion_tokens"] == 4

    asyncio.run(run())


@pytest.mark.parametrize(("finish", "status"), [("error", 500), ("abort", 503)])
def test_an_engine_that_gives_up_is_told(tiny_model: Path, finish: Any, status: int) -> None:
    async def run() -> None:
        engine = Recorder()
        bridge, answer = setting(tiny_model, engine, n=2)
        bridge.on_step([RequestOutput("r-0", (), finish, 0, error="broken" if finish == "error" else None)])
        with pytest.raises(ApiError) as told:
            await collect(answer)
        assert told.value.status == status
        # The other choice is of no use to anybody now.
        assert engine.ended == ["r-1"] and bridge.open == 0

    asyncio.run(run())


def test_a_client_that_is_gone_ends_all_choices(tiny_model: Path) -> None:
    async def gone() -> Any:
        return {"type": "http.disconnect"}

    async def run() -> None:
        engine = Recorder()
        bridge, answer = setting(tiny_model, engine, n=3)
        with pytest.raises(ClientGone):
            async for _ in answer.pieces(gone):
                pass
        assert engine.ended == ["r-0", "r-1", "r-2"] and bridge.open == 0
        # Outputs that were under way are dropped, not delivered.
        bridge.on_step([output("r-0", "a", "length")])
        await asyncio.sleep(0)

    asyncio.run(run())


def test_of_refused_choices_none_stays_queued(tiny_model: Path) -> None:
    async def run() -> None:
        engine = Recorder(room=2)
        with pytest.raises(ApiError) as refused:
            setting(tiny_model, engine, n=3)
        assert refused.value.status == 429
        assert engine.ended == ["r-0", "r-1", "r-2"]

    asyncio.run(run())


def test_seeds_of_choices() -> None:
    assert choice_seed(None, 3) is None
    assert choice_seed(7, 0) == 7 and choice_seed(-1, 0) == 2**63 - 1
    seeds = {choice_seed(seed, copy) for seed in range(20) for copy in range(20)}
    assert len(seeds) == 400 and all(seed is not None and 0 <= seed < 2**63 for seed in seeds)
