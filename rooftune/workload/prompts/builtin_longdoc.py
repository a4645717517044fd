"""Questions about a long report, written for Rooftune: every report is different from its first sentence on."""

from __future__ import annotations

import random

from rooftune.workload.prompts.contract import Prompt

_TOKENS_PER_WORD = 1.35
"""Of common English tokenizers on this text; used only to aim at a length, never reported as a count."""
DEFAULT_TOKENS = 800

_SENTENCES = (
    "Station {a} on the {b} line counted {n} passengers in week {w}, which is {p} percent more than planned.",
    "The depot at {a} reported {n} hours of repair work, most of it on doors and on the brakes of older trains.",
    "After the storm in week {w} the section between {a} and {b} was closed for {h} hours.",
    "A survey of {n} travellers in {a} named punctuality, clean seats and clear signs as their first wishes.",
    "The energy used per train kilometre fell by {p} percent once the drivers of {b} were trained to coast.",
    "The committee asked {a} to present a new timetable before week {w} and to explain the {h} hour gap at night.",
    "Costs for cleaning rose to {n} dollars a month in {a}, while those in {b} stayed where they were.",
    "Two lifts in {a} were out of service for {h} hours, and {n} complaints were written down.",
    "A trial with {p} percent shorter stops at {b} saved little time, since the doors set the pace.",
    "The new ticket machines of {a} sold {n} tickets in week {w} and failed {h} times.",
    "Staff in {b} asked for a second person on late trains after {n} incidents were recorded near {a}.",
    "Freight was moved from day to night on the {b} line, and noise complaints in {a} doubled within {h} weeks.",
)
_QUESTIONS = (
    "Which station had the most trouble, and what should be done there first? Answer in three sentences.",
    "Summarise the report for a manager who has one minute. Name two figures.",
    "List the three costs that the report mentions and say which of them can be lowered soonest.",
    "What does the report say about passengers, and what does it leave open?",
)
_PLACES = (
    "Alder",
    "Birch Hill",
    "Cedar Point",
    "Dove Lane",
    "Elm Cross",
    "Foxley",
    "Gorse End",
    "Hazel Bridge",
    "Ivy Market",
    "Juniper",
    "Knoll Park",
    "Linden",
    "Maple Dock",
    "Nettle Field",
    "Orchard",
    "Poplar Gate",
)


def longdoc_prompts(count: int, seed: str, input_tokens: int | None) -> list[Prompt]:
    """``count`` reports of about ``input_tokens`` tokens (800 by default) with a question each."""
    draw = random.Random(seed)
    words = max(20, round((input_tokens or DEFAULT_TOKENS) / _TOKENS_PER_WORD))
    prompts = []
    for number in range(count):
        text = [f"Report {draw.randrange(10**8)} of the {draw.choice(_PLACES)} transport office."]
        length = 0
        while length < words - 25:
            sentence = draw.choice(_SENTENCES).format(
                a=draw.choice(_PLACES),
                b=draw.choice(_PLACES),
                n=draw.randint(100, 99_999),
                w=draw.randint(1, 52),
                p=draw.randint(2, 45),
                h=draw.randint(2, 70),
            )
            text.append(sentence)
            length += len(sentence.split())
        text.append(_QUESTIONS[number % len(_QUESTIONS)])
        prompts.append(Prompt(messages=({"role": "user", "content": " ".join(text)},), output_tokens=96))
    return prompts
