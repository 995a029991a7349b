"""Writes `by_torch/`, with torch.utils.tensorboard.

pip install torch==2.15.0 tensorboard; python write_with_torch.py
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch.utils.tensorboard import SummaryWriter

HERE = Path(__file__).parent / "by_torch"
VALUES = [0.5, 1.25, float("nan"), 1e-30, float("inf"), -0.0, 3.1415927, 6e4, 0.1, -7.0]


def main() -> None:
    with SummaryWriter(str(HERE)) as writer:
        for step, value in enumerate(VALUES):
            writer.add_scalar("loss", value, step)
            writer.add_scalar("of/a tensor", torch.tensor(value), step)
            writer.add_scalar("of/new style", value, step, new_style=True)
            writer.add_scalar("of/double precision", value, step, new_style=True, double_precision=True)
        writer.add_scalar("without a step", 1.0)
        writer.add_scalars("both", {"train": 1.0, "eval": 2.0}, 9)
        writer.add_text("note", "at the end", 9)
        writer.add_histogram("weights", torch.arange(20.0), 9)
        writer.add_pr_curve("curve", torch.ones(4), torch.rand(4), 9)
        writer.add_custom_scalars({"board": {"chart": ["Multiline", ["loss"]]}})
        writer.add_hparams({"learning_rate": 0.1}, {"best": 0.97}, run_name="tried")


if __name__ == "__main__":
    main()
