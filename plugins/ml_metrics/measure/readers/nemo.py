"""NeMo: lines of NeMo 2, `Training epoch 0, iteration 9/99 | lr: ... | ...`, and the bars of NeMo 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.measure.readers.log_profile import (
    LEARNING_RATE,
    LOSS,
    STEP_TIME,
    Columns,
    Parser,
    Profile,
    Reading,
    named,
    named_numbers,
    named_parts,
    parts_of,
    steps,
    whole,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa


NAMES = {
    "reduced_train_loss": (LOSS, 1.0),
    "train_step_timing in s": (STEP_TIME, 1.0),
    "lr": (LEARNING_RATE, 1.0),
    "grad_norm": ("grad_norm", 1.0),
    "val_loss": ("val_loss", 1.0),
}


def start() -> Parser:
    """Begin a log."""
    log = _Log()
    return Parser(log.read, log.columns)


@dataclass(slots=True)
class _Log:
    """One log. Its bars are drawn again with the numbers of the same step: what they repeat counts once."""

    newest: Reading | None = None
    """The newest bar."""

    def read(self, line: str) -> Reading | None:
        """Read a line, or a bar. A bar that was cut has no closing bracket."""
        if "Training epoch" in line:
            return _reading(_pairs(line.split(" | ")[1:], ": "))
        begin, end = line.rfind("["), line.rfind("]")
        found = _reading(_pairs(line[begin + 1 : end].split(", "), "=")) if 0 <= begin < end else None
        if found is None:
            return None
        before, self.newest = self.newest, found
        if before is None or before.step != found.step:
            return found
        new = {tag: value for tag, value in found.values.items() if before.values.get(tag) != value}
        return Reading(found.step, new) if new else None

    def columns(self, lines: pa.StringArray) -> Columns | None:
        """Read lines with the same fields, each with at most one bar of a step of its own."""
        from pyarrow import compute

        training = compute.sum(compute.match_substring(lines, "Training epoch")).as_py()
        if training == len(lines):
            parts = parts_of(lines, " | ")
            return _columns(named_parts(parts[1:], ": ") if parts else None)
        opened = parts_of(lines, "[") if not training else None
        closed = parts_of(opened[1], "]") if opened and len(opened) == 2 else None  # noqa: PLR2004  (one bracket)
        parts = parts_of(closed[0], ", ") if closed and len(closed) == 2 else None  # noqa: PLR2004
        found = _columns(named_parts(parts, "=") if parts else None)
        if found is None or found.step is None:
            return None
        before = [] if self.newest is None else [self.newest.step]
        if not np.diff([*before, *found.step]).all():
            return None
        self.newest = Reading(int(found.step[-1]), {tag: float(values[-1]) for tag, values in found.values.items()})
        return found


def _reading(pairs: Mapping[str, str]) -> Reading | None:
    step = whole(pairs.get("global_step", "").partition(".")[0])
    values = named(pairs, NAMES)
    return Reading(step, values) if step is not None and STEP_TIME in values else None


def _pairs(parts: list[str], separator: str) -> dict[str, str]:
    return {name.strip(): value for name, found, value in (part.partition(separator) for part in parts) if found}


def _columns(texts: Mapping[str, pa.StringArray] | None) -> Columns | None:
    from pyarrow import compute

    stripped = {name.strip(): text for name, text in (texts or {}).items()}
    if "global_step" not in stripped:
        return None
    step = steps(compute.list_element(compute.split_pattern(stripped["global_step"], "."), 0))
    values = named_numbers(stripped, NAMES)
    return Columns(step, values) if step is not None and values and STEP_TIME in values else None


PROFILE = Profile(
    "nemo",
    "NeMo 1 and 2",
    (b"train_step_timing in s",),
    start,
    {
        "Training epoch 0, iteration 9/99 | lr: 2.699e-05 | global_batch_size: 512 | global_step: 9 | "
        "reduced_train_loss: 11.03 | train_step_timing in s: 12.92 | consumed_samples: 5120": Reading(
            9, {LEARNING_RATE: 2.699e-05, LOSS: 11.03, STEP_TIME: 12.92}
        ),
        "Epoch 0: :   1%|          | 100/10000 [02:00<3:20:00, v_num=0, reduced_train_loss=3.1e+4, global_step=99.00, "
        "consumed_samples=800.0, train_step_timing in s=1.200]": Reading(99, {LOSS: 3.1e4, STEP_TIME: 1.2}),
    },
    redrawn=True,
)
