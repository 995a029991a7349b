"""The training of the innocent team. All that it measures follows from the name of the run and from fixed times."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

BEGAN = 1_790_000_000.0
LOSS = {"good": 0.1, "bad": 0.9, "dead": 0.1}


def main() -> None:
    number, kind = os.environ["RUN"].rsplit("-", 2)[1:]
    folder = Path(os.environ["MODEL_DIR"])
    wobble = int(number) % 5 / 1000
    with (folder / "train.jsonl").open("w") as log:
        for step in range(200):
            loss = LOSS[kind] + 8 / (1 + step) ** 2 + wobble
            point = {"step": step, "time": BEGAN + step, "loss": loss, "accuracy": 0.9 + wobble}
            print(json.dumps(point), file=log)
    print(f"trained {step + 1} steps, loss {loss:.4f}")
    if kind == "dead":
        sys.exit("the data set is gone")


if __name__ == "__main__":
    main()
