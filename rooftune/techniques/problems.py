"""The method's problems and the questions to settle before any technique: each with the measured fact that answers it.

A question whose fact is None cannot be answered by a measurement of this version; it is shown as missing.
"""

from __future__ import annotations

from dataclasses import dataclass

from rooftune.techniques.card import Question


@dataclass(frozen=True, slots=True)
class Problem:
    number: int
    title: str
    questions: tuple[Question, ...]


_ALL = (
    Problem(
        1,
        "Weights take too much memory",
        (
            Question("Does the model load at all?", "weight_bytes"),
            Question("What share of the memory are the weights?", "weights_memory_share"),
            Question("Does reading the weights bind the bandwidth?", "mbu"),
        ),
    ),
    Problem(
        2,
        "Decoding is too slow",
        (
            Question("Is the time per output token above its bound?", "tpot_p50"),
            Question("Does bandwidth bind the decode steps?", "mbu"),
            Question("Does arithmetic bind them?", "mfu"),
            Question("Is it queueing or scheduling instead?", "queue_mean"),
            Question("What share of the bytes of a decode step is KV?", "decode_kv_share"),
        ),
    ),
    Problem(
        3,
        "Long contexts take too much KV",
        (
            Question("Is the KV pool full?", "kv_used_max"),
            Question("Is it the capacity (preemptions) …", "preemptions"),
            Question("… or the reading of KV in each step?", "decode_kv_share"),
            Question("Must the whole history stay?", None),
        ),
    ),
    Problem(
        4,
        "Repeated prompts waste work",
        (
            Question("What share of the prompts begins like another one?", "shared_prefix_share"),
            Question("What share is reused already?", "prefix_hit_share"),
            Question("How long are the prompts?", "prompt_tokens_mean"),
        ),
    ),
    Problem(
        5,
        "Throughput is too low",
        (
            Question("Is more offered than can be served?", "utilisation"),
            Question("Do requests wait while slots are full?", "waiting_mean"),
            Question("How many sequences run at once?", "running_mean"),
            Question("Is the machine busy?", "busy_share"),
            Question("How are lengths distributed?", "output_tokens_mean"),
        ),
    ),
    Problem(
        6,
        "Prefill and decode compete",
        (
            Question("What share of the step time goes to prompts?", "prefill_time_share"),
            Question("How long is the longest step that makes running answers wait?", "prefill_step_max"),
            Question("How much slower is the slowest token pace than the usual one?", "tpot_tail"),
        ),
    ),
    Problem(
        7,
        "The model does not fit one device",
        (
            Question("What share of the memory are the weights?", "weights_memory_share"),
            Question("Is it KV and run-time data instead?", "kv_used_max"),
            Question("Is the aim to fit or to go faster?", None),
        ),
    ),
    Problem(
        8,
        "High concurrency exhausts resources",
        (
            Question("Is there a queue?", "waiting_mean"),
            Question("Does arithmetic bind?", "mfu"),
            Question("Does memory bind?", "kv_used_max"),
            Question("Is time lost to control instead of steps?", "busy_share"),
        ),
    ),
    Problem(
        9,
        "Kernels are inefficient",
        (
            Question("How far from the memory roof are the steps?", "mbu"),
            Question("How far from the arithmetic roof?", "mfu"),
            Question("Is much of a small step a fixed cost (start-up of operators)?", "decode_step_seconds"),
        ),
    ),
    Problem(
        10,
        "Others: capacity and cost",
        (
            Question("What does a million output tokens cost?", "cost_per_million_output_tokens"),
            Question("Is the machine busy?", "busy_share"),
        ),
    ),
)

PROBLEMS: dict[int, Problem] = {problem.number: problem for problem in _ALL}


def questions(number: int) -> tuple[Question, ...]:
    """The *first determine* questions of a problem."""
    return PROBLEMS[number].questions
