"""NeMo: lines of NeMo 2, `Training epoch 0, iteration 9/99 | lr: ... | ...`, and the bars of NeMo 1."""

from __future__ import annotations

from ml_metrics.collect.profiles.profile import LEARNING_RATE, LOSS, STEP_TIME, Profile, Reading, named, whole

NAMES = {
    "reduced_train_loss": (LOSS, 1.0),
    "train_step_timing in s": (STEP_TIME, 1.0),
    "lr": (LEARNING_RATE, 1.0),
    "grad_norm": ("grad_norm", 1.0),
    "val_loss": ("val_loss", 1.0),
}


def read(line: str) -> Reading | None:
    """Read a line, or the last bar in it. A bar that was cut has no closing bracket."""
    if "Training epoch" in line:
        pairs = _pairs(line.split(" | ")[1:], ": ")
    else:
        begin, end = line.rfind("["), line.rfind("]")
        if not 0 <= begin < end:
            return None
        pairs = _pairs(line[begin + 1 : end].split(", "), "=")
    step = whole(pairs.get("global_step", "").partition(".")[0])
    values = named(pairs, NAMES)
    return Reading(step, values) if step is not None and STEP_TIME in values else None


def _pairs(parts: list[str], separator: str) -> dict[str, str]:
    return {name.strip(): value for name, found, value in (part.partition(separator) for part in parts) if found}


PROFILE = Profile(
    "nemo",
    "NeMo 1 and 2",
    (b"train_step_timing in s",),
    lambda: read,
    {
        "Training epoch 0, iteration 9/99 | lr: 2.699e-05 | global_batch_size: 512 | global_step: 9 | "
        "reduced_train_loss: 11.03 | train_step_timing in s: 12.92 | consumed_samples: 5120": Reading(
            9, {LEARNING_RATE: 2.699e-05, LOSS: 11.03, STEP_TIME: 12.92}
        ),
        "Epoch 0: :   1%|          | 100/10000 [02:00<3:20:00, v_num=0, reduced_train_loss=3.1e+4, global_step=99.00, "
        "consumed_samples=800.0, train_step_timing in s=1.200]": Reading(99, {LOSS: 3.1e4, STEP_TIME: 1.2}),
    },
)
