"""Numbers in words: ratios with their interval, quantities with their unit, money, durations. Never NaN, never a bare 0."""

from __future__ import annotations

import math
import re
import unicodedata
from datetime import datetime
from typing import Any

from rooftune.store.result import Interval

MISSING = "–"
_SIGNS = {"USD": "$", "EUR": "€", "GBP": "£", "JPY": "¥"}
_RAISED = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def known(value: float | None) -> bool:
    """Whether a value is there: not None, not NaN, not infinite."""
    return value is not None and math.isfinite(value)


def number(value: float | None, digits: int = 3) -> str:
    """``digits`` significant digits, thousands separated; powers of ten (``2.1 × 10⁻⁶``) below 1e-4 and from 1e15 on."""
    if value is None or not math.isfinite(value):
        return MISSING
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    if not -5 < size < 15:
        mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
        return f"{mantissa} × 10{str(int(exponent)).translate(_RAISED)}"
    places = max(0, digits - 1 - size)
    text = f"{value:,.{places}f}"
    # Rounding may have added a digit (9.996 -> 10.00).
    if places and len(re.sub(r"[^0-9]", "", text).lstrip("0")) > digits:
        text = f"{value:,.{places - 1}f}"
    return text


def duration(seconds: float | None, digits: int = 3) -> str:
    """A time in the unit that reads best: 850 µs, 412 ms, 3.20 s, 6.4 min, 2.1 h."""
    if seconds is None or not math.isfinite(seconds):
        return MISSING
    size = abs(seconds)
    if size == 0:
        return "0 s"
    if size < 0.9995e-3:
        return f"{number(seconds * 1e6, digits)} µs"
    if size < 0.9995:
        return f"{number(seconds * 1e3, digits)} ms"
    if size < 119.5:
        return f"{number(seconds, digits)} s"
    if size < 7170:
        return f"{number(seconds / 60, 2 if size < 600 else 3)} min"
    return f"{number(seconds / 3600, digits)} h"


def percent(share: float | None, digits: int = 3) -> str:
    """A share of one as a percentage; 99.97 % is not rounded up to 100 %."""
    if share is None or not math.isfinite(share):
        return MISSING
    if share in (0.0, 1.0):
        return f"{share * 100:.0f} %"
    text = number(share * 100, digits)
    return f"{'>99.9' if 0.999 <= share < 1 and text.startswith('100') else text} %"


def money(amount: float | None, currency: str) -> str:
    """An amount with its currency: $0.42, €12.50, 3.10 CHF."""
    if amount is None or not math.isfinite(amount):
        return MISSING
    text = f"{amount:,.2f}" if 1 <= abs(amount) < 1000 else number(amount, 3)
    if abs(amount) < 1 and len(text) > 4 and text.startswith(("0.", "-0.")) and text.endswith("0"):
        text = text[:-1]
    sign = _SIGNS.get(currency.upper())
    return f"{sign}{text}" if sign else f"{text} {currency}"


def scaled(value: float | None, unit: str) -> str:
    """A large physical quantity with its decimal prefix: 19.2 GB/s, 50.1 GFLOP/s."""
    if value is None or not math.isfinite(value):
        return MISSING
    for factor, prefix in _PREFIXES:
        if abs(value) >= factor:
            return f"{number(value / factor)} {prefix}{unit}"
    return f"{number(value)} {unit}"


def ratio_size(value: float, as_factor: bool | None = None) -> str:
    """The size of a change without its direction: ``2.3 ×`` from a factor of 1.5 on, ``4.2 %`` below.

    ``as_factor`` forces one of the two forms, so that an estimate and its interval are written alike.
    """
    factor = value if value >= 1 else 1 / value
    if factor >= 1.5 if as_factor is None else as_factor:
        return f"{number(factor, 2 if factor < 100 else 3)} ×" if factor >= 1.095 else f"{factor:.2f} ×"
    share = abs(value - 1) * 100
    return f"{share:.1f} %" if share < 10 else f"{number(share, 2 if share < 100 else 3)} %"


def ratio(effect: Interval | None) -> str:
    """A ratio after / before in words: ``2.3 × lower (2.1 to 2.5)``, ``4.2 % higher (1.0 to 7.3 %)``.

    Where the interval holds 1 the words are "no clear change" and both ends keep their direction.
    """
    if effect is None or not all(map(known, (effect.value, effect.low, effect.high))):
        return MISSING
    if min(effect.value, effect.low, effect.high) <= 0:
        return f"ratio {number(effect.value)} ({number(effect.low)} to {number(effect.high)})"
    if effect.low <= 1 <= effect.high:
        if effect.low == effect.high:
            return "unchanged"
        return f"no clear change ({_directed(effect.low)} to {_directed(effect.high)})"
    word = "lower" if effect.value < 1 else "higher"
    size = ratio_size(effect.value)
    as_factor = size.endswith("×")
    ends = sorted((effect.low, effect.high), key=lambda end: abs(math.log(end)))
    near, far = (ratio_size(end, as_factor) for end in ends)
    return f"{size} {word} ({near.rpartition(' ')[0]} to {far.removesuffix(' ×')})"


def points(effect: Interval, before: float) -> str:
    """A ratio of two shares as the difference in percentage points: ``35 points higher (31 to 40)``."""
    if not all(map(known, (effect.value, effect.low, effect.high, before))):
        return MISSING
    value, low, high = ((end - 1) * before * 100 for end in (effect.value, effect.low, effect.high))
    if low <= 0 <= high:
        return f"no clear change ({_points(low)} to {_points(high)} points)"
    near, far = sorted((abs(low), abs(high)))
    return f"{number(abs(value), 2)} points {'lower' if value < 0 else 'higher'} ({number(near, 2)} to {number(far, 2)})"


def _points(value: float) -> str:
    return f"{'−' if value < 0 else '+' if value > 0 else ''}{number(abs(value), 2)}"


def point_ratio(before: float | None, after: float | None) -> str:
    """The same words for two single values, where no interval was measured."""
    if before is None or after is None or not known(before) or not known(after) or before <= 0 or after <= 0:
        return MISSING
    return "unchanged" if before == after else _directed(after / before)


def _directed(value: float) -> str:
    if ratio_size(value) == "0.0 %":
        return "0.0 %"
    return f"{ratio_size(value)} {'lower' if value < 1 else 'higher'}"


def bare_interval(effect: Interval | None) -> str:
    """``× 0.43 (0.40 to 0.48)``: the ratio itself, for tables."""
    if effect is None or not known(effect.value):
        return MISSING
    return f"× {number(effect.value, 3)} ({number(effect.low, 3)} to {number(effect.high, 3)})"


def moment(text: str) -> str:
    """An ISO date and time for people, in the zone that it was written in; other text stays as it is."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return text
    zone = when.strftime(" %Z") if when.tzinfo else ""
    return f"{when.day} {when.strftime('%B %Y, %H:%M')}{zone}"


def humanize(key: str) -> str:
    """A field name for people: ``physical_cores`` -> ``physical cores``."""
    return key.replace("_", " ").strip()


def setting(value: Any) -> str:
    """A switch's value as the spec writes it."""
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return number(value, 4) if not value.is_integer() else f"{value:.0f}"
    return str(value)


def one_line(text: str) -> str:
    """Text of others on one line: controls, escapes and direction overrides are taken out, whitespace is joined."""
    kept = "".join(c if unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Zl", "Zp") else " " for c in text)
    return " ".join(kept.split())


def plural(count: int, word: str, many: str | None = None) -> str:
    return f"{count:,} {word if count == 1 else many or word + 's'}"
