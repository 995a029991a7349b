"""NeMo: lines of NeMo 2, `Training epoch 0, iteration 9/99 | lr: ... | ...`, and the bars of NeMo 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ml_metrics.measure.readers.log_profile import LEARNING_RATE, LOSS, STEP_TIME, Profile, Reading, named, number

if TYPE_CHECKING:
    from collections.abc import Mapping


STEP = "global_step"
"""NeMo 1 rounds it from 1,000 on: `3.1e+4`."""
NAMES = {
    "reduced_train_loss": (LOSS, 1.0),
    "train_step_timing in s": (STEP_TIME, 1.0),
    "lr": (LEARNING_RATE, 1.0),
    "grad_norm": ("grad_norm", 1.0),
    "val_loss": ("val_loss", 1.0),
    "consumed_samples": ("consumed_samples", 1.0),
}


@dataclass(slots=True)
class _Log:
    """One log. Its bars are drawn again with the numbers of the same step: what they repeat counts once."""

    newest: Reading | None = None
    """The newest bar."""

    def read(self, line: str) -> Reading | None:
        """Read a line, or a bar. A bar that was cut has no closing bracket."""
        if "Training epoch" in line:
            return _reading(_pairs(line.split(" | ")[1:], ": "))
        mark = line.rfind(STEP)
        begin, end = line.rfind("[", 0, max(mark, 0)), line.find("]", max(mark, 0))
        found = _reading(_pairs(line[begin + 1 : end].split(", "), "=")) if 0 <= begin < mark < end else None
        if found is None:
            return None
        before, self.newest = self.newest, found
        if before is None or before.step != found.step:
            return found
        new = {tag: value for tag, value in found.values.items() if before.values.get(tag) != value}
        return Reading(found.step, new) if new else None


def _reading(pairs: Mapping[str, str]) -> Reading | None:
    step = number(pairs.get(STEP, ""))
    values = named(pairs, NAMES)
    is_whole = step is not None and step.is_integer()
    return Reading(int(step), values) if step is not None and is_whole and {STEP_TIME, LOSS} & values.keys() else None


def _pairs(parts: list[str], separator: str) -> dict[str, str]:
    return {name.strip(): value for name, found, value in (part.partition(separator) for part in parts) if found}


PROFILE = Profile(
    "nemo",
    "NeMo 1 and 2",
    (b"train_step_timing in s", b"reduced_train_loss"),
    lambda: _Log().read,
    {
        "Training epoch 0, iteration 9/99 | lr: 2.699e-05 | global_batch_size: 512 | global_step: 9 | "
        "reduced_train_loss: 11.03 | train_step_timing in s: 12.92 | consumed_samples: 5120": Reading(
            9, {LEARNING_RATE: 2.699e-05, LOSS: 11.03, STEP_TIME: 12.92, "consumed_samples": 5120}
        ),
        "Epoch 0: :   1%|          | 100/10000 [02:00<3:20:00, v_num=0, reduced_train_loss=3.1e+4, global_step=99.00, "
        "consumed_samples=800.0, train_step_timing in s=1.200]": Reading(
            99, {LOSS: 3.1e4, STEP_TIME: 1.2, "consumed_samples": 800}
        ),
        "Epoch 0:   3%|3         | 34103/1100000 [5:28:58<171:22:21,  1.73it/s, loss=2.52, v_num=, "
        "reduced_train_loss=2.510, global_step=3.1e+4, consumed_samples=2.54e+8, val_loss=2.510]": Reading(
            31_000, {LOSS: 2.51, "consumed_samples": 2.54e8, "val_loss": 2.51}
        ),
    },
    redrawn=True,
)
