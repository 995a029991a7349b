"""What programs print: the lines of their own output that hold their metrics.

MaxText:      completed step: 12, seconds: 2.167, TFLOP/s/device: 36.722, Tokens/s/device: 1,890.3, loss: 2.191
Megatron-LM:  iteration 10/ 100 | elapsed time per iteration (ms): 812.3 | lm loss: 1.05E+01 | ... |
torchtitan:   step:  1  loss:  8.13  grad_norm:  1.4  memory: 10.2GiB(12.9%)  tps: 7,033  ...  mfu: 16.7%
NeMo:         Training epoch 0, iteration 9/99 | lr: 2.7e-05 | global_step: 9 | reduced_train_loss: 11.03 | ...
Keras:        1875/1875 ━━━━━━━━ 3s 1ms/step - accuracy: 0.93 - loss: 0.24
Hugging Face: {'loss': 2.3, 'grad_norm': 1.2, 'learning_rate': 5e-05, 'epoch': 0.02}
LightGBM:     [1]	train's l2: 0.5	valid's auc: 0.8
XGBoost:      [0]	train-rmse:0.5	valid-rmse:0.6
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ml_metrics.core.kinds import HIGHER, LOWER
from ml_metrics.core.model import Stated
from ml_metrics.measure.points import step_of
from ml_metrics.measure.text import number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


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
LONGEST_DICT = 10_000


class Reading(NamedTuple):
    """What one line says."""

    step: int | None
    """None if the program prints none: the number of the line counts."""
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Profile:
    """One program."""

    name: str
    literals: tuple[bytes, ...]
    """A line without any of them is not looked at."""
    start: Callable[[], Callable[[str], Reading | None]]
    """Begins a log: returns what reads its lines in order; None for a line without metrics, or that is not whole."""
    redrawn: bool = False
    """Whether a bar counts each time that it is drawn, and not only the last time."""


def whole(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def _named(pairs: Mapping[str, str], names: Mapping[str, str | tuple[str, float]]) -> dict[str, float]:
    """The numbers of some names, under their tags; some are multiplied."""
    found = {}
    for name, known in names.items():
        value = number(pairs[name]) if name in pairs else None
        if value is not None:
            tag, factor = known if isinstance(known, tuple) else (known, 1.0)
            found[tag] = value * factor
    return found


def _same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


def _pairs(parts: Iterable[str], separator: str) -> dict[str, str]:
    return {name.strip(): value for name, found, value in (part.partition(separator) for part in parts) if found}


OF_MAXTEXT = {
    "seconds": STEP_TIME, "TFLOP/s/device": TFLOPS, "Tokens/s/device": TOKENS,
    **_same("loss", "lm_loss", "perplexity", "reward_accuracy", "moe_lb_loss", "total_weights"),
}  # fmt: skip


def maxtext(line: str) -> Reading | None:
    """Read a line that holds its step, its time and its loss: a line that was cut lacks the last of them."""
    first, *others = line.partition("completed step: ")[2].split(", ")
    step, values = whole(first), _named(_pairs(others, ": "), OF_MAXTEXT)
    return Reading(step, values) if step is not None and LOSS in values and STEP_TIME in values else None


OF_MEGATRON: dict[str, str | tuple[str, float]] = {
    "elapsed time per iteration (ms)": (STEP_TIME, 1e-3), "throughput per GPU (TFLOP/s/GPU)": TFLOPS, "TFLOPs": TFLOPS,
    "tokens per gpu per second (tgs)": TOKENS, "tokens per GPU (tokens/s/GPU)": TOKENS, "lm loss": LOSS,
    "lm-loss": LOSS, "grad norm": GRAD_NORM, "learning rate": LEARNING_RATE, "consumed samples": "consumed_samples",
    "number of skipped iterations": "skipped_iterations", "number of nan iterations": "nan_iterations",
}  # fmt: skip


def megatron(line: str) -> Reading | None:
    """Read a line that ends with its last separator, or goes on behind its last field, as Primus does."""
    rest = line.partition("iteration ")[2]
    first, *others = rest.split(" | ")
    if not rest.rstrip().endswith("|"):
        others = others[:-1]  # it may be cut
        if not any("number of nan iterations" in one for one in others):
            return None
    step = whole(first.partition("/")[0])
    values = _named({name: value.strip(" |") for name, value in _pairs(others, ":").items()}, OF_MEGATRON)
    return Reading(step, values) if step is not None and STEP_TIME in values else None


OF_TORCHTITAN = {"memory": "memory_gib", "tps": TOKENS, "tflops": TFLOPS, "mfu": MFU, **_same(LOSS, GRAD_NORM)}


def torchtitan(line: str) -> Reading | None:
    """Read a line of training with its last field. A line of validation looks alike, and has another beginning."""
    before, _, rest = line.partition("step:")
    words = rest.split()
    pairs = {name.removesuffix(":"): value for name, value in zip(words[1::2], words[2::2], strict=False)}
    if before.rstrip().endswith("validate") or not pairs.get("mfu", "").endswith(("%", "N/A")):
        return None
    pairs["memory"] = pairs.get("memory", "").partition("GiB")[0]
    step, values = whole(words[0]), _named(pairs, OF_TORCHTITAN)
    return Reading(step, values) if step is not None and LOSS in values else None


OF_NEMO = {
    "reduced_train_loss": LOSS, "train_step_timing in s": STEP_TIME, "lr": LEARNING_RATE,
    **_same("grad_norm", "val_loss", "consumed_samples"),
}  # fmt: skip


@dataclass(slots=True)
class _NemoLog:
    """Lines of NeMo 2, and the bars of NeMo 1, which are drawn again with the numbers of the same step.

    What bars repeat counts once. NeMo 1 rounds its step from 1,000 on: `3.1e+4`.
    """

    newest: Reading | None = None
    """The newest bar."""

    def read(self, line: str) -> Reading | None:
        """Read a line, or a bar. A bar that was cut has no closing bracket."""
        if "Training epoch" in line:
            return self._reading(_pairs(line.split(" | ")[1:], ": "))
        mark = max(line.rfind("global_step"), 0)
        begin, end = line.rfind("[", 0, mark), line.find("]", mark)
        found = self._reading(_pairs(line[begin + 1 : end].split(", "), "=")) if 0 <= begin < mark < end else None
        if found is None:
            return None
        before, self.newest = self.newest, found
        if before is None or before.step != found.step:
            return found
        new = {tag: value for tag, value in found.values.items() if before.values.get(tag) != value}
        return Reading(found.step, new) if new else None

    @staticmethod
    def _reading(pairs: Mapping[str, str]) -> Reading | None:
        step, values = step_of(number(pairs.get("global_step", ""))), _named(pairs, OF_NEMO)
        return None if step is None or {STEP_TIME, LOSS}.isdisjoint(values) else Reading(step, values)


KERAS_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
OF_BAR = "/step - "


@dataclass(slots=True)
class _KerasLog:
    """The last bar of each epoch. The step is the number of the epoch; a second model in one log begins again with 1.

    The bar is drawn after the validation and the callbacks of the epoch, whose time its `ms/step` includes. The time of
    a step is therefore that of the bar that it replaces. Where there is none, as with `verbose=2`, the tag after a
    validation is another one.
    """

    epoch: int = 0

    def read(self, line: str) -> Reading | None:
        """Read the last bar of a line, which was redrawn any number of times."""
        bars = [bar for one in line.replace("\b", "\r").split("\r") if (bar := one.strip())] or [""]
        text = bars[-1]
        if text.startswith("Epoch "):
            self.epoch = whole(text.removeprefix("Epoch ").partition("/")[0]) or self.epoch
            return None
        before, mark, after = text.partition(OF_BAR)
        done, _, total = before.split(" ", 1)[0].partition("/")
        if not mark or done != total or whole(done) is None:
            return None
        values: dict[str, float] = {}
        for pair in after.split(" - "):
            name, colon, value = pair.partition(": ")
            one = number(value) if colon else None
            if one is None:
                return None  # cut
            values[name.strip()] = one
        tag = WITH_VALIDATION if any(name.startswith("val_") for name in values) else STEP_TIME
        own, replaced = self._seconds(before), self._seconds_of_steps(bars[-2]) if len(bars) > 1 else None
        if replaced is not None:
            values[STEP_TIME] = replaced
        elif own is not None:
            values[tag] = own
        return Reading(self.epoch, values)

    @staticmethod
    def _seconds(before: str) -> float | None:
        time = before.rsplit(" ", 1)[-1]
        unit = next((unit for unit in KERAS_UNITS if time.endswith(unit)), None)
        seconds = number(time.removesuffix(unit)) if unit else None
        return None if seconds is None or unit is None else seconds * KERAS_UNITS[unit]

    def _seconds_of_steps(self, bar: str) -> float | None:
        """The seconds of a step by a bar that was replaced; None for that of the first step, which compiles."""
        before, mark, _ = bar.partition(OF_BAR)
        done = whole(before.partition("/")[0])
        return self._seconds(before) if mark and done is not None and done > 1 else None


def hugging_face(line: str) -> Reading | None:
    """Read the dict of a line, which a bar may precede. It has no step: the number of the point counts."""
    begin = line.find("{'")
    end = line.find("}", begin)
    if not 0 <= begin < end <= begin + LONGEST_DICT:
        return None
    given = _pairs(line[begin + 1 : end].split(", "), ": ")
    values = {
        name.strip("'\" "): value for name, text in given.items() if (value := number(text.strip("'\""))) is not None
    }
    known = {"loss", "eval_loss", "train_loss", "train_runtime", "eval_runtime"}
    return Reading(None, values) if "epoch" in values and known & values.keys() else None


ROUND = re.compile(r"\[(?P<step>\d{1,9})\]\t(?P<values>.+)")
OF_ROUND = re.compile(
    r"(?P<data>[^\t:]+?)(?:'s (?P<of_lightgbm>[^\t:]+): |-(?P<of_xgboost>[^\t:-]+(?:@\d+-?)?):)(?P<value>\S+)"
)


def boosting(line: str) -> Reading | None:
    """Read a round. A value may have its deviation behind it, as cross-validation prints it."""
    found = ROUND.search(line)
    if found is None:
        return None
    values = {}
    for one in filter(None, map(OF_ROUND.match, found["values"].split("\t"))):
        value = number(one["value"].partition("+")[0])
        if value is not None:
            values[f"{one['data']}/{one['of_lightgbm'] or one['of_xgboost']}"] = value
    return Reading(int(found["step"]), values) if values else None


PROFILES = (
    Profile("maxtext", (b"completed step: ",), lambda: maxtext),
    Profile("megatron", (b"elapsed time per iteration (ms)",), lambda: megatron),
    Profile("torchtitan", (b"tps:",), lambda: torchtitan),
    Profile("nemo", (b"train_step_timing in s", b"reduced_train_loss"), lambda: _NemoLog().read, redrawn=True),
    Profile("keras", (b"Epoch ", OF_BAR.encode()), lambda: _KerasLog().read),
    Profile("hugging-face", (b"{'",), lambda: hugging_face),
    Profile("boosting", (b"]\t",), lambda: boosting),
)
LOG_PROFILES = {one.name: one for one in PROFILES}
