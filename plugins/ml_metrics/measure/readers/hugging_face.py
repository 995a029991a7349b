"""Hugging Face Trainer: Python dicts, `{'loss': 2.3, 'grad_norm': 1.2, 'learning_rate': 5e-05, 'epoch': 0.02}`."""

from __future__ import annotations

from ml_metrics.measure.readers.log_profile import Profile, Reading, number

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


PROFILE = Profile(
    "hugging-face",
    "Hugging Face Trainer",
    (b"{'",),
    lambda: read,
    {
        "{'loss': 2.3, 'grad_norm': 1.2, 'learning_rate': 5e-05, 'epoch': 0.02}": Reading(
            None, {"loss": 2.3, "grad_norm": 1.2, "learning_rate": 5e-05, "epoch": 0.02}
        ),
        "100%|##########| 3/3 [00:01<00:00]{'loss': '1.921', 'epoch': '1.453e+04'}": Reading(
            None, {"loss": 1.921, "epoch": 14530.0}
        ),
    },
)
