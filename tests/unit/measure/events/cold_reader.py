"""Reads each folder in a process that has read nothing before.

As a program: it imports the reader, and for each folder in its standard input, one per line, it forks and prints what
the fork read, as one line of JSON. A fork costs some milliseconds, a new interpreter half a second.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ml_metrics.measure.events import read_events
from ml_metrics.store.storage import list_files

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Points = dict[tuple[str, str], list[tuple[int, float, str]]]
"""By run and tag: step, wall time and value in hexadecimal digits."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What a process read from one folder."""

    points: Points
    warnings: list[str]


def read_cold(folders: Sequence[Path]) -> list[Contents]:
    """Read each folder in a process of its own that has read nothing else."""
    done = subprocess.run(
        [sys.executable, "-m", "unit.measure.events.cold_reader"],
        input="".join(f"{folder}\n" for folder in folders),
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OPENBLAS_NUM_THREADS": "1"},
    )
    found = []
    for folder, line in zip(folders, done.stdout.splitlines(), strict=True):
        answer = json.loads(line)
        assert "error" not in answer, f"{folder}: {answer['error']}"
        points = {(run, tag): [tuple(point) for point in points] for run, tag, points in answer["series"]}
        found.append(Contents(points, answer["warnings"]))
    return found


def _read(folder: str) -> dict[str, object]:
    try:
        events = read_events(list_files(folder))
    except BaseException:
        return {"error": traceback.format_exc()[-2000:]}
    return {
        "series": [
            (
                one.run,
                one.tag,
                [
                    (step, wall_time, value.hex())
                    for step, wall_time, value in zip(
                        one.step.tolist(), one.wall_time.tolist(), one.value.tolist(), strict=True
                    )
                ],
            )
            for one in events.series
        ],
        "warnings": events.warnings,
    }


def main() -> None:
    for line in sys.stdin:
        sys.stdout.flush()
        child = os.fork()
        if not child:
            print(json.dumps(_read(line.rstrip("\n"))), flush=True)
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
