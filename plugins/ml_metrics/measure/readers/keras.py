"""Keras: the last bar of each epoch, `1875/1875 ━━━━━━━━ 3s 1ms/step - accuracy: 0.93 - loss: 0.24`.

It is drawn after the validation and the callbacks of the epoch, whose time its `ms/step` includes. The time of a step
is therefore that of the bar that it replaces. Where there is none, as with `verbose=2`, the tag after a validation is
another one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ml_metrics.measure.readers.log_profile import STEP_TIME, WITH_VALIDATION, Profile, Reading, number, whole

if TYPE_CHECKING:
    from collections.abc import Iterable


EPOCH = "Epoch "
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
MARK = "/step - "
VALIDATION = "val_"


@dataclass(slots=True)
class _Bars:
    """The bars of one log. The step is the number of the epoch; a second model in one log begins again with 1."""

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
    return WITH_VALIDATION if any(name.startswith(VALIDATION) for name in names) else STEP_TIME


def _seconds(before: str) -> float | None:
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
    lambda: _Bars().read,
    {
        "1875/1875 ━━━━━━━━━━━━━━━━━━━━ 3s 1ms/step - accuracy: 0.9278 - loss: 0.2407": Reading(
            0, {"accuracy": 0.9278, "loss": 0.2407, STEP_TIME: 0.001}
        ),
        "60/60 - 9s - 147ms/step - loss: 2.4685 - val_loss: 0.2172": Reading(
            0, {"loss": 2.4685, "val_loss": 0.2172, WITH_VALIDATION: 0.147}
        ),
    },
)
