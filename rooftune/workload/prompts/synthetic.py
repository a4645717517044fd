"""Prompts of a given length: exact under the server's own tokenizer where it can be asked, else labelled approximate."""

from __future__ import annotations

import random

from rooftune.workload.prompts.contract import CountTokens, Message, Prompt

_WORD_LIST = """
time year people way day man thing woman life child world school state family student group country problem
hand part place case week company system program question work government number night point home water room
mother area money story fact month lot right study book eye job word business issue side kind head house
service friend father power hour game line end member law car city community name president team minute idea
body information back parent face others level office door health person art war history party result change
morning reason research girl guy moment air teacher force education foot boy age policy music market sense
nation plan college interest death experience effect use class control care field development role effort
rate heart drug show leader light voice wife police mind difference period value behavior building action
season society tax director position player record paper space ground form event official matter center
"""
_WORDS = tuple(_WORD_LIST.split())
_APPROXIMATE_TOKENS_PER_WORD = 1.0
"""These are common words, one token each in most vocabularies."""
_TEMPLATE_TOKENS = 30
"""A usual chat template's own tokens; used only where the server cannot count."""
_ATTEMPTS = 40


def synthetic_prompts(
    count: int, seed: str, input_tokens: int, output_tokens: int | None, count_tokens: CountTokens | None
) -> tuple[list[Prompt], bool]:
    """``count`` prompts of ``input_tokens`` tokens, chat template included, and whether the lengths are exact.

    With ``count_tokens`` every prompt is fitted until the server's tokenizer gives the asked number; a number that a
    prompt cannot reach (below the template's own length) gives the nearest, and the answer is not exact.
    """
    draw = random.Random(seed)
    prompts: list[Prompt] = []
    exact = count_tokens is not None
    surplus = float(_TEMPLATE_TOKENS)
    for _ in range(count):
        guess = max(1, round((input_tokens - surplus) / _APPROXIMATE_TOKENS_PER_WORD))
        words = [draw.choice(_WORDS) for _ in range(guess)]
        tokens: int | None = None
        if count_tokens is not None:
            words, tokens = _fit(words, input_tokens, count_tokens, draw)
            surplus = tokens - len(words)
            exact = exact and tokens == input_tokens
        prompts.append(
            Prompt(messages=tuple(_messages(words)), output_tokens=output_tokens or 128, input_tokens=tokens)
        )
    return prompts, exact


def _messages(words: list[str]) -> list[Message]:
    return [{"role": "user", "content": " ".join(words)}]


def _fit(
    words: list[str], target: int, count_tokens: CountTokens, draw: random.Random
) -> tuple[list[str], int]:
    """Add, drop or redraw words until the count is right. Most words are one token, so few calls do."""
    current, tokens = words, count_tokens(_messages(words))
    best, best_tokens = current, tokens
    for attempt in range(_ATTEMPTS):
        missing = target - tokens
        if missing == 0:
            return current, tokens
        if missing > 0:
            current = current + [draw.choice(_WORDS) for _ in range(missing)]
        elif len(current) + missing >= 1:
            current = current[:missing]
        else:
            current = current[:1]
        if attempt % 2 or len(current) == 1:
            # Stepping to and fro over words of several tokens: draw the last ones anew.
            tail = min(len(current), 3)
            current = current[:-tail] + [draw.choice(_WORDS) for _ in range(tail)]
        tokens = count_tokens(_messages(current))
        if abs(target - tokens) < abs(target - best_tokens):
            best, best_tokens = current, tokens
    return best, best_tokens
