"""Keras: the last bar of each epoch, `1875/1875 ━━━━━━━━ 3s 1ms/step - accuracy: 0.93 - loss: 0.24`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.collect.profiles.profile import STEP_TIME, Profile, Reading, number, whole

if TYPE_CHECKING:
    from collections.abc import Callable

EPOCH = "Epoch "
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
MARK = "/step - "
ENDS = (f"{MARK[:-3]}", "/epoch")


def start() -> Callable[[str], Reading | None]:
    """Begin a log. The step of a bar is the number of its epoch; a second model in one log begins again with 1."""
    epoch = 0

    def read(line: str) -> Reading | None:
        nonlocal epoch
        text = line.replace("\b", "\r").split("\r")[-1].strip() or line.replace("\b", "\r").strip("\r ").split("\r")[-1]
        if text.startswith(EPOCH):
            epoch = whole(text[len(EPOCH) :].partition("/")[0]) or epoch
            return None
        return _bar(text, epoch)

    return read


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
    time = before.rsplit(" ", 1)[-1]
    unit = next((unit for unit in UNITS if time.endswith(unit)), None)
    seconds = number(time.removesuffix(unit)) if unit else None
    if seconds is not None and unit is not None:
        values[STEP_TIME] = seconds * UNITS[unit]
    return Reading(epoch, values)


PROFILE = Profile(
    "keras",
    "Keras: `Model.fit` with `verbose=1`",
    (EPOCH.encode(), MARK.encode()),
    start,
    {
        "1875/1875 ━━━━━━━━━━━━━━━━━━━━ 3s 1ms/step - accuracy: 0.9278 - loss: 0.2407": Reading(
            0, {"accuracy": 0.9278, "loss": 0.2407, STEP_TIME: 0.001}
        ),
    },
)
