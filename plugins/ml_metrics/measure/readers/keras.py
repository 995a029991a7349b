"""Keras: the last bar of each epoch, `1875/1875 ━━━━━━━━ 3s 1ms/step - accuracy: 0.93 - loss: 0.24`.

It is drawn after the validation and the callbacks of the epoch, whose time its `ms/step` includes. The time of a step
is therefore that of the bar that it replaces. Where there is none, as with `verbose=2`, the tag after a validation is
another one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.measure.readers.log_profile import (
    STEP_TIME,
    WITH_VALIDATION,
    Columns,
    Parser,
    Profile,
    Reading,
    every,
    named_parts,
    number,
    numbers,
    parts_of,
    whole,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa
    from numpy.typing import NDArray


EPOCH = "Epoch "
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
MARK = "/step - "
VALIDATION = "val_"


def start() -> Parser:
    """Begin a log. The step of a bar is the number of its epoch; a second model in one log begins again with 1."""
    bars = _Bars()
    return Parser(bars.read, bars.columns)


@dataclass(slots=True)
class _Bars:
    """The bars of one log."""

    epoch: int = 0

    def read(self, line: str) -> Reading | None:
        """Read the last bar of a line, which was redrawn any number of times."""
        bars = [bar for one in line.replace("\b", "\r").split("\r") if (bar := one.strip())] or [""]
        text = bars[-1]
        if text.startswith(EPOCH):
            self.epoch = whole(text[len(EPOCH) :].partition("/")[0]) or self.epoch
            return None
        found = _bar(text, self.epoch)
        seconds = _seconds_of_steps(bars[-2]) if len(bars) > 1 else None
        if found is None or seconds is None:
            return found
        others = {name: value for name, value in found.values.items() if name != WITH_VALIDATION}
        return Reading(found.step, {**others, STEP_TIME: seconds})

    def columns(self, lines: pa.StringArray) -> Columns | None:
        """Read lines with one bar each, all with the same fields."""
        from pyarrow import compute

        texts = compute.ascii_trim_whitespace(lines)
        if compute.any(compute.match_substring_regex(texts, "[\b\r]")).as_py():
            return None
        heads = compute.starts_with(texts, EPOCH).to_numpy(zero_copy_only=False)
        epochs = np.array([whole(one[len(EPOCH) :].partition("/")[0]) or 0 for one in texts.filter(heads).to_pylist()])
        known = np.concatenate([[self.epoch], epochs[epochs > 0]]).astype(np.int64)
        places = np.flatnonzero(heads)[epochs > 0] if epochs.size else np.zeros(0, np.int64)
        rest = np.flatnonzero(~heads)
        found = _bars(texts.filter(~heads), known[np.searchsorted(places, rest)])
        if found is not None:
            self.epoch = int(known[-1])
        return found


def _bars(texts: pa.StringArray, epochs: NDArray[np.int64]) -> Columns | None:
    """Return the bars that are complete; those before are redrawn by them."""
    from pyarrow import compute

    if not len(texts):
        return Columns(epochs, {})
    halves = parts_of(texts, MARK, 2)
    counts = parts_of(compute.list_element(compute.split_pattern(halves[0], " "), 0), "/", 2) if halves else None
    if not halves or not counts or not every(compute.match_substring_regex, counts[0], "^[0-9]{1,18}$"):
        return None
    complete = compute.equal(*counts)
    if not compute.any(complete).as_py():
        return Columns(epochs[:0], {})
    before, after = (half.filter(complete) for half in halves)
    parts = parts_of(after, " - ")
    named = named_parts(parts, ": ") if parts else None
    if not parts or named is None or len(named) != len(parts):
        return None
    values = {name.strip(): numbers(text) for name, text in named.items()}
    times = _step_times(before, _tag(values))
    if times is None or any(one is None or not one.size for one in values.values()):
        return None
    return Columns(epochs[complete.to_numpy(zero_copy_only=False)], {**values, **times})  # type: ignore[dict-item]


def _step_times(before: pa.StringArray, tag: str) -> dict[str, NDArray[np.float64]] | None:
    """Return the seconds of a step, from what is before the mark; None if lines differ in their unit."""
    from pyarrow import compute

    words = parts_of(before, " ")
    if not words:
        return None
    units = [next((unit for unit in UNITS if word.endswith(unit)), None) for word in set(words[-1].to_pylist())]
    unit = units[0]
    if len(set(units)) > 1:
        return None
    seconds = numbers(compute.utf8_slice_codeunits(words[-1], 0, -len(unit))) if unit else np.zeros(0)
    if seconds is None or unit is None:
        return None if seconds is None else {}
    return {tag: seconds * UNITS[unit]} if seconds.size else {}


def _bar(text: str, epoch: int) -> Reading | None:
    before, mark, after = text.partition(MARK)
    done, _, total = before.split(" ", 1)[0].partition("/")
    if not mark or not done or done != total or whole(done) is None:
        return None
    values = {}
    for pair in after.split(" - "):
        name, colon, value = pair.partition(": ")
        one = number(value) if colon else None
        if one is None:
            return None  # cut
        values[name.strip()] = one
    seconds = _seconds(before)
    if seconds is not None:
        values[_tag(values)] = seconds
    return Reading(epoch, values)


def _tag(names: Iterable[str]) -> str:
    """Return the tag of the time in a bar that has these other values."""
    return WITH_VALIDATION if any(name.startswith(VALIDATION) for name in names) else STEP_TIME


def _seconds(before: str) -> float | None:
    """Return the seconds of a step, from what is before the mark."""
    time = before.rsplit(" ", 1)[-1]
    unit = next((unit for unit in UNITS if time.endswith(unit)), None)
    seconds = number(time.removesuffix(unit)) if unit else None
    return None if seconds is None or unit is None else seconds * UNITS[unit]


def _seconds_of_steps(bar: str) -> float | None:
    """Return the seconds of a step by a bar that was replaced; None for that of the first step, which compiles."""
    before, mark, _ = bar.partition(MARK)
    done = whole(before.partition("/")[0])
    return _seconds(before) if mark and done is not None and done > 1 else None


PROFILE = Profile(
    "keras",
    "Keras: `Model.fit` with `verbose=1` or `2`",
    (EPOCH.encode(), MARK.encode()),
    start,
    {
        "1875/1875 ━━━━━━━━━━━━━━━━━━━━ 3s 1ms/step - accuracy: 0.9278 - loss: 0.2407": Reading(
            0, {"accuracy": 0.9278, "loss": 0.2407, STEP_TIME: 0.001}
        ),
        "60/60 - 9s - 147ms/step - loss: 2.4685 - val_loss: 0.2172": Reading(
            0, {"loss": 2.4685, "val_loss": 0.2172, WITH_VALIDATION: 0.147}
        ),
    },
)
