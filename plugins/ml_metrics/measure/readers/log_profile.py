"""The interface of a log profile, and the numbers and names that programs print."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ml_metrics.core.kinds import HIGHER, LOWER
from ml_metrics.core.model import Stated
from ml_metrics.measure.text import number_in

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


LOSS, STEP_TIME, GRAD_NORM, LEARNING_RATE = "loss", "step_time", "grad_norm", "learning_rate"
WITH_VALIDATION = "step_time_with_validation"
"""The time of an epoch and its validation, divided by the steps."""
TOKENS, TFLOPS, MFU = "tokens_per_second_per_device", "tflops_per_device", "mfu_percent"
STATED = {
    LOSS: Stated(better=LOWER),
    STEP_TIME: Stated("s", LOWER),
    WITH_VALIDATION: Stated("s", LOWER),
    TOKENS: Stated("tokens/s", HIGHER),
    TFLOPS: Stated("TFLOP/s", HIGHER),
    MFU: Stated("%", HIGHER),
}
"""The tags that mean the same in every program."""
LONGEST_NUMBER = 60


class Reading(NamedTuple):
    """What one line says."""

    step: int | None
    """None if the program prints none: the number of the line counts."""
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Profile:
    """One program."""

    name: str
    program: str
    """The program, for the documentation."""
    literals: tuple[bytes, ...]
    """A line without any of them is not looked at."""
    start: Callable[[], Callable[[str], Reading | None]]
    """Begins a log: returns what reads its lines in order; None for a line without metrics, or that is not whole."""
    examples: Mapping[str, Reading] = field(default_factory=dict)
    """Lines of the program, with what they say. A test holds them."""
    redrawn: bool = False
    """Whether a bar counts each time that it is drawn, and not only the last time."""


def number(text: str) -> float | None:
    """Return a number as programs print it: `7,033`, `1.05E+01`, `16.7%`, `596.2/596.2`, `nan`; None for `N/A`."""
    if len(text) <= LONGEST_NUMBER and "_" not in text:
        try:
            return float(text)
        except ValueError:
            pass
    text = text[:LONGEST_NUMBER].strip().partition("/")[0].removesuffix("%")
    whole, comma, rest = text.partition(",")
    if comma and whole.lstrip("+-").isdigit() and all(len(part.partition(".")[0]) == 3 for part in rest.split(",")):  # noqa: PLR2004  (thousands)
        text = text.replace(",", "")
    return number_in(text) if text else None


def named(pairs: Mapping[str, str], names: Mapping[str, tuple[str, float]]) -> dict[str, float]:
    found = {}
    for name, (tag, factor) in names.items():
        value = number(pairs[name]) if name in pairs else None
        if value is not None:
            found[tag] = value * factor
    return found


def whole(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None  # noqa: PLR2004  (64 bits)
