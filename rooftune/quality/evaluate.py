"""Compare two weight paths of a model on the text that ships, in a child process so that its memory is given back."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rooftune.errors import EnvironmentProblem, WrongInput
from rooftune.progress import Progress, Silent
from rooftune.quality.decide import judge_quality
from rooftune.quality.divergence import Divergence, TokenScores, score, summarize
from rooftune.quality.forward import Forward
from rooftune.quality.perplexity import Perplexity, perplexity
from rooftune.quality.text import Document, documents, text_hash
from rooftune.spec import Configuration
from rooftune.spec.goal import Goal
from rooftune.store.result import Interval, QualityOutcome

WEIGHT_SWITCHES = ("weight_kernel",)
"""Switches that change what is computed for given tokens; all others change only when and with whom it is computed."""

_FLOOR_DOCUMENTS = 3
_FLOOR_STEP = 64
_SANE_PERPLEXITY = 200.0


@dataclass(frozen=True, slots=True)
class LocalComparison:
    """Everything that `compare_local` measured. ``floor``: the baseline against itself at another chunking."""

    divergence: Divergence
    perplexity: Perplexity
    floor: Divergence | None
    text: str
    """Hash of the scored text."""
    same_weights: bool
    """Both settings compute with the same weights; ``divergence`` is then the floor."""

    def outcome(self, goals: Sequence[Goal] = ()) -> QualityOutcome:
        note = ""
        if self.same_weights:
            note = (
                "the change touches only scheduling, so this is the model against itself at another chunking"
            )
        floor = None if self.floor is None else self.floor.kl_mean.value
        outcome = judge_quality(self.divergence, goals, floor_kl=floor, perplexity=self.perplexity, note=note)
        if self.perplexity.base > _SANE_PERPLEXITY:
            # Both sides could share a fault that a difference cannot show.
            outcome.passed = None
            outcome.reason = (
                f"the baseline itself has a perplexity of {self.perplexity.base:.0f} on plain text: it is damaged or "
                "loaded wrongly, and no comparison with it means anything"
            )
        return outcome


Texts = Sequence[tuple[Document, Sequence[int]]]


def compare_forward(
    base: Forward,
    others: Sequence[tuple[Forward, int]],
    texts: Texts,
    progress: Progress | None = None,
) -> list[list[TokenScores]]:
    """Score tokenised documents by the baseline and by each other model; nothing but per-token scores is kept.

    ``others``: a model and on how many of the documents (the first ones) it is compared. The baseline computes each document once.
    """
    show = progress or Silent()
    scores: list[list[TokenScores]] = [[] for _ in others]
    for done, (document, tokens) in enumerate(texts):
        wanted = [(place, model) for place, (model, most) in enumerate(others) if done < most]
        if not wanted:
            break
        reference = base.logits(tokens)
        for place, model in wanted:
            scores[place].append(score(document.name, reference, model.logits(tokens), tokens))
        show.advance((done + 1) / len(texts))
    return scores


def weight_path(settings: Configuration) -> dict[str, Any]:
    """The part of a configuration that decides what is computed."""
    return {switch: settings[switch] for switch in WEIGHT_SWITCHES if switch in settings}


def compare_local(
    model: str,
    baseline: Configuration,
    changed: Configuration,
    progress: Progress | None = None,
    *,
    changed_model: str | None = None,
    threads: int = 2,
    tokens_per_document: int | None = None,
    timeout: float = 900.0,
) -> LocalComparison:
    """Compare the weight paths of two configurations (whole ones: defaults and changes merged) on the shipped text.

    ``changed_model``: another file for the changed side, same tokenizer. ``tokens_per_document``: score only the first so many of
    each document (quicker, the interval by document stays honest). Raises WrongInput for a model that cannot be read,
    EnvironmentProblem where the child fails.
    """
    show = progress or Silent()
    request = {
        "model": model,
        "changed_model": changed_model or model,
        "baseline": weight_path(baseline),
        "changed": weight_path(changed),
        "threads": threads,
        "tokens_per_document": tokens_per_document,
    }
    show.begin("quality: both models on the same text", 60.0)
    try:
        answer = _ask_child(request, show, timeout)
    finally:
        show.end()
    return _from_json(answer)


def measure(request: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """What the child does: load both sides, score, floor. Returns plain JSON."""
    from rooftune.engine.model.load import load_runner
    from rooftune.quality.forward import LocalForward

    def load(model: str, path: Mapping[str, Any]) -> Any:
        return load_runner(model, path.get("weight_kernel", "packed"), int(request["threads"]))

    base = load(request["model"], request["baseline"])
    same = request["model"] == request["changed_model"] and request["baseline"] == request["changed"]
    most = int(request.get("tokens_per_document") or base.shape.maximum_context)
    texts = [(d, base.tokenizer.encode(d.text)[:most]) for d in documents()]
    floor_model = LocalForward(base, _FLOOR_STEP)
    if same:
        (floor,) = compare_forward(LocalForward(base), [(floor_model, len(texts))], texts, progress)
        scores = floor
    else:
        changed = load(request["changed_model"], request["changed"])
        if changed.tokenizer.encode(texts[0][0].text)[:most] != texts[0][1]:
            raise WrongInput(
                "the two models tokenise differently; only models with one tokenizer are compared"
            )
        pairs: list[tuple[Forward, int]] = [
            (LocalForward(changed), len(texts)),
            (floor_model, _FLOOR_DOCUMENTS),
        ]
        scores, floor = compare_forward(LocalForward(base), pairs, texts, progress)
    size = sum(len(base.tokenizer.decode(tokens).encode()) for _, tokens in texts)
    return {
        "divergence": _divergence_to_json(summarize(scores)),
        "perplexity": _perplexity_to_json(perplexity(scores, size)),
        "floor": _divergence_to_json(summarize(floor)),
        "text": text_hash(),
        "same_weights": same,
    }


def _ask_child(request: Mapping[str, Any], progress: Progress, timeout: float) -> dict[str, Any]:
    """Run the child; its standard input stays open as its lifeline: it ends when that closes."""
    import threading

    child = subprocess.Popen(
        [sys.executable, "-m", "rooftune.quality.child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    watchdog = threading.Timer(timeout, child.kill)
    watchdog.start()
    errors: list[str] = []
    reader = threading.Thread(target=lambda: errors.extend(child.stderr or ()), daemon=True)
    reader.start()
    answer: dict[str, Any] | None = None
    try:
        if child.stdin is None or child.stdout is None:
            raise EnvironmentProblem("the quality process has no pipes")
        child.stdin.write(json.dumps(request) + "\n")
        child.stdin.flush()
        for line in child.stdout:
            message = json.loads(line)
            if "advance" in message:
                progress.advance(float(message["advance"]))
            elif "wrong_input" in message:
                raise WrongInput(str(message["wrong_input"]))
            elif "problem" in message:
                raise EnvironmentProblem(str(message["problem"]))
            else:
                answer = message["result"]
    except BrokenPipeError:
        pass
    finally:
        watchdog.cancel()
        if child.stdin is not None:
            child.stdin.close()
        try:
            child.wait(timeout=10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        reader.join(timeout=2)
    if answer is None:
        last = errors[-1].strip() if errors else f"exit status {child.returncode}"
        raise EnvironmentProblem(f"the quality measurement ended early: {last}")
    return answer


def _divergence_to_json(value: Divergence) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(value)


def _perplexity_to_json(value: Perplexity) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(value)


def _from_json(answer: Mapping[str, Any]) -> LocalComparison:
    def divergence(raw: Mapping[str, Any]) -> Divergence:
        return Divergence(
            **{**raw, "kl_mean": Interval(**raw["kl_mean"]), "agreement": Interval(**raw["agreement"])}
        )

    raw = answer["perplexity"]
    return LocalComparison(
        divergence(answer["divergence"]),
        Perplexity(**{**raw, "ratio": Interval(**raw["ratio"])}),
        divergence(answer["floor"]),
        str(answer["text"]),
        bool(answer["same_weights"]),
    )
