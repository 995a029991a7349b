"""Hugging Face Trainer: Python dicts, `{'loss': 2.3, 'grad_norm': 1.2, 'learning_rate': 5e-05, 'epoch': 0.02}`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.measure.readers.log_profile import (
    Columns,
    Parser,
    Profile,
    Reading,
    named_parts,
    number,
    numbers,
    parts_of,
)

if TYPE_CHECKING:
    import pyarrow as pa


BEGIN, END = "{'", "}"
KNOWN = frozenset({"loss", "eval_loss", "train_loss", "train_runtime", "eval_runtime"})
LONGEST = 10_000


def read(line: str) -> Reading | None:
    """Read the dict of a line, which a bar may precede. It has no step: the number of the point counts."""
    begin = line.find(BEGIN)
    end = line.find(END, begin)
    if not 0 <= begin < end or end - begin > LONGEST:
        return None
    values = {}
    for pair in line[begin + 1 : end].split(", "):
        name, colon, text = pair.partition(": ")
        value = number(text.strip("'\"")) if colon else None
        if value is not None:
            values[name.strip("'\" ")] = value
    return Reading(None, values) if "epoch" in values and KNOWN & values.keys() else None


def columns(lines: pa.StringArray) -> Columns | None:
    """Read lines with the same fields."""
    from pyarrow import compute

    begun = parts_of(lines, BEGIN, 2)
    ended = parts_of(begun[1], END, 2) if begun else None
    if not ended or compute.max(compute.binary_length(ended[0])).as_py() > LONGEST - len(BEGIN):
        return None
    parts = parts_of(ended[0], ", ")
    texts = named_parts(parts, ": ") if parts else None
    values = {}
    for name, text in (texts or {}).items():
        found = numbers(compute.ascii_trim(text, "'\""))
        if found is None:
            return None
        if found.size:
            values[name.strip("'\" ")] = found
    return Columns(None, values) if "epoch" in values and KNOWN & values.keys() else None


PROFILE = Profile(
    "hugging-face",
    "Hugging Face Trainer",
    (b"{'",),
    lambda: Parser(read, columns),
    {
        "{'loss': 2.3, 'grad_norm': 1.2, 'learning_rate': 5e-05, 'epoch': 0.02}": Reading(
            None, {"loss": 2.3, "grad_norm": 1.2, "learning_rate": 5e-05, "epoch": 0.02}
        ),
        "100%|##########| 3/3 [00:01<00:00]{'loss': '1.921', 'epoch': '1.453e+04'}": Reading(
            None, {"loss": 1.921, "epoch": 14530.0}
        ),
    },
)
