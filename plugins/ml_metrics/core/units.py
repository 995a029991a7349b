"""Numbers with their units, as people read them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Write = Callable[[Iterable[float | None], str], list[str]]

SECONDS, BYTES, PERCENT = "s", "B", "%"

MINUTE, HOUR, DAY = 60, 3_600, 86_400

_SCALES = {
    BYTES: ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")),
    SECONDS: ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")),
}


_SIZES = {
    **{name: (unit, factor) for unit, scales in _SCALES.items() for factor, name in scales},
    BYTES: (BYTES, 1.0), "KiB": (BYTES, 2.0**10), "MiB": (BYTES, 2.0**20), "GiB": (BYTES, 2.0**30),
}  # fmt: skip


def factor_between(unit: str, other: str) -> float | None:
    """What a number in a unit is multiplied by to be in another one; None if they do not measure the same."""
    (kind, size), (other_kind, other_size) = _SIZES.get(unit, ("", 1.0)), _SIZES.get(other, (" ", 1.0))
    return size / other_size if kind == other_kind else None


def quantity(value: float | None, unit: str = "") -> str:
    """`3.09 GB`, `12 min`, `0.961`; `-` for None."""
    return f"{value:.6g}" if value is not None and not unit else quantities([value], unit)[0]


def quantities(values: Iterable[float | None], unit: str = "") -> list[str]:
    """Return numbers in one scale of their unit, with as many digits as it takes to tell different numbers apart.

    A number without a unit has six digits.
    """
    numbers = list(values)
    finite = {value for value in numbers if value is not None and math.isfinite(value)}
    if not unit:
        return ["-" if value is None else f"{value:.{_digits(finite, 6)}g}" for value in numbers]
    scale, shown = _scale(max(map(abs, finite), default=0.0), unit)
    digits = _digits({value / scale for value in finite}, 3)
    return ["-" if value is None else _with_unit(value / scale, digits, shown) for value in numbers]


def readable(values: Iterable[float | None], unit: str = "", digits: int = 4) -> list[str]:
    """Return numbers for a headline: as `quantities`, but without a unit they are as short as they can be: `1,234,567`.

    Such numbers have so many digits, or more if it takes more to tell them apart.
    """
    numbers = list(values)
    if unit:
        return quantities(numbers, unit)
    digits = _digits({value for value in numbers if value is not None and math.isfinite(value)}, digits)
    return ["-" if value is None else _number(value, digits) for value in numbers]


def exact(values: Iterable[float | None], unit: str = "") -> list[str]:
    return readable(values, unit, 6)


def change(percent: float | None) -> str:
    """`+8.42 %`, `-12,300 %`; `-` for None."""
    return "-" if percent is None else f"{'+' if percent > 0 else ''}{readable([percent], digits=3)[0]} %"


def duration(seconds: float | None) -> str:
    """As exact as people need it: `0.25 s`, `50 s`, `3 h 20 min`, `2 days 5 h`; `-` for None."""
    if seconds is None:
        return "-"
    whole = round(max(0.0, seconds))
    if whole < MINUTE:
        return f"{max(0.0, seconds):.2g} s"
    large, small, names = (MINUTE, 1, ("min", "s")) if whole < HOUR else (HOUR, MINUTE, ("h", "min"))
    if whole >= 2 * DAY:
        large, small, names = DAY, HOUR, ("days", "h")
    count, rest = whole // large, whole % large // small
    return f"{count} {names[0]}{f' {rest} {names[1]}' if rest else ''}"


def interval(
    lower: float | None, upper: float | None, unit: str = "", write: Write = quantities, *, inclusive: bool = False
) -> str:
    """`below 12 min`, `at least 0.96`, `from 3 GB to 3.2 GB`; `-` if both sides are open."""
    low = None if lower is None or math.isinf(lower) else lower
    high = None if upper is None or math.isinf(upper) else upper
    least, greatest = write([low, high], unit)
    if low is not None and high is not None:
        return least if low == high else f"from {least} to {greatest}"
    if low is not None:
        return f"{'at least' if inclusive else 'above'} {least}"
    return "-" if high is None else f"{'at most' if inclusive else 'below'} {greatest}"


def _digits(numbers: set[float], fewest: int) -> int:
    """How many digits tell numbers apart."""
    enough = (many for many in range(fewest, 17) if len({f"{one:.{many}g}" for one in numbers}) == len(numbers))
    return next(enough, 17)


def _scale(greatest: float, unit: str) -> tuple[float, str]:
    """The factor and the unit in which the greatest number has one to three digits before the point."""
    for factor, name in _SCALES.get(unit, ()):
        if greatest >= (2 * factor if name in {"d", "h", "min"} else factor):
            return factor, name
    return 1.0, unit


def _with_unit(value: float, digits: int, unit: str) -> str:
    return f"{_number(value, digits)} {unit}" if math.isfinite(value) else f"{value}"


def _number(value: float, digits: int) -> str:
    """Without an exponent where that is readable: `412`, `0.961`, `1,234`."""
    if value == 0 or not math.isfinite(value) or not 1e-4 <= abs(value) < 1e12:
        return f"{value:.{digits}g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


MOST_EXACT = 2.0**53
"""From here on, the number that is written may not be the one that is read."""


def write_instead(value: Any, *, whole: bool = False) -> str:
    """Return `: write 1000` for a text like `1_000`; nothing if it means no number, or no whole one.

    YAML 1.1 reads `1_000`, `0b11` and `1:30` as numbers; YAML 1.2, as this package, reads them as text.
    """
    number = _meant(str(value)) if isinstance(value, str | int | float) and not isinstance(value, bool) else math.nan
    if not abs(number) < MOST_EXACT or (whole and number != int(number)):
        return ""
    written = json.dumps(int(number) if number == int(number) else number)
    return f": write {written}{' without quotes' if written == value else ''}"


def _meant(text: str) -> float:
    plain = re.sub(r"(?<=[0-9a-fA-F])_(?=[0-9a-fA-F])|(?<=\d)[, ](?=\d{3}(?!\d))", "", text.strip())
    sign, digits = (-1 if plain.startswith("-") else 1), plain.removeprefix("-").removeprefix("+")
    if re.fullmatch(r"[0-9]+(?::[0-5]?[0-9])+(?:\.[0-9]*)?", digits):
        *whole, last = digits.split(":")
        return sign * (float(last) + sum(int(part) * 60.0**place for place, part in enumerate(reversed(whole), 1)))
    try:
        return sign * int(digits, 0) if re.match(r"(?i)0[xob]", digits) else float(plain)
    except (ValueError, OverflowError):
        return math.nan
