"""What the statistics need, computed before anything runs: requests, rounds, time.

Power of the paired t test: under a true mean log ratio d with spread s over n rounds, the statistic follows Student's
noncentral t with n - 1 degrees of freedom and noncentrality d * sqrt(n) / s.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from scipy import optimize, special

from rooftune.compare.effect import CONFIRM_ROUNDS

_FEWEST_FOR_A_MEAN = 20
_PERCENTILE = re.compile(r"_p(\d+)$")


def requests_for_percentile(percent: float, confidence: float = 0.95) -> int:
    """Fewest requests whose largest value bounds the percentile from above: 1 - q^n >= confidence (p95: 59, p99: 299)."""
    if not 0.0 < percent < 100.0:
        raise ValueError(f"a percentile lies between 0 and 100, not at {percent}")
    return math.ceil(math.log(1.0 - confidence) / math.log(percent / 100.0))


def requests_needed(metrics: Iterable[str], attainment: float | None = None) -> tuple[int, str]:
    """Fewest requests a run needs so that every goal metric can be read, and which metric asks for it.

    ``attainment`` is the target of an slo_attainment goal (0.95 asks for as many as a p95).
    """
    most, because = _FEWEST_FOR_A_MEAN, "a mean"
    for metric in metrics:
        match = _PERCENTILE.search(metric)
        if match is not None:
            need = requests_for_percentile(float(match.group(1)))
        elif metric in ("slo_attainment", "goodput") and attainment is not None and 0.0 < attainment < 1.0:
            need = requests_for_percentile(attainment * 100.0)
        else:
            need = _FEWEST_FOR_A_MEAN
        if need > most:
            most, because = need, metric
    return most, because


def power(effect: float, spread: float, rounds: int, level: float = 0.95) -> float:
    """Probability that the interval excludes no effect on the right side. ``effect`` and ``spread`` in log units."""
    if rounds < 2:
        return 0.0
    if spread <= 0.0:
        return 1.0 if effect != 0.0 else 0.0
    critical = float(special.stdtrit(rounds - 1, 0.5 + level / 2.0))
    noncentrality = abs(effect) * math.sqrt(rounds) / spread
    value = 1.0 - float(special.nctdtr(rounds - 1, noncentrality, critical))
    # The noncentral t loses its tail far out, where the power is 1 for every purpose.
    return value if math.isfinite(value) and noncentrality < 30.0 else 1.0


def minimum_detectable_effect(rounds: int, spread: float, wanted_power: float = 0.8) -> float:
    """Smallest true effect, as a log ratio, that ``rounds`` rounds find with the wanted probability.

    exp(-x) - 1 and exp(x) - 1 give it as a change in per cent. Infinite below 2 rounds.
    """
    if rounds < 2:
        return math.inf
    if spread <= 0.0:
        return 0.0
    return float(
        optimize.brentq(
            lambda multiple: power(multiple * spread, spread, rounds) - wanted_power,
            1e-6,
            29.0 / math.sqrt(rounds),
        )
        * spread
        if rounds > 2
        else _two_rounds(spread, wanted_power)
    )


def _two_rounds(spread: float, wanted_power: float) -> float:
    """With 2 rounds t has one degree of freedom; the search needs a wider bracket."""
    high = 1.0
    while power(high * spread, spread, 2) < wanted_power and high < 20.0:
        high *= 1.5
    return high * spread


def rounds_needed(
    effect: float, spread: float, wanted_power: float = 0.8, most: int = 400, fewest: int = CONFIRM_ROUNDS
) -> int | None:
    """Fewest rounds (never below ``fewest``) that find a true log-ratio ``effect``; None where ``most`` do not suffice."""
    low, high = max(2, fewest), most
    if high < low or power(effect, spread, high) < wanted_power:
        return None
    while low < high:  # power grows with rounds
        middle = (low + high) // 2
        if power(effect, spread, middle) >= wanted_power:
            high = middle
        else:
            low = middle + 1
    return low
