"""MLLOG beside `json.loads` line by line, and log profiles in MB/s, on one core. No figure is a promise.

python benchmarks/formats.py [MEGABYTES]
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ml_metrics.core.limits import UNLIMITED, Allowance
from ml_metrics.measure import LOG_PROFILES
from ml_metrics.measure.readers.log import read_logs
from ml_metrics.measure.readers.registry import BY_NAME, read_files
from ml_metrics.store import storage

if TYPE_CHECKING:
    from collections.abc import Callable

TOKEN = ":::MLLOG "
OTHER = "I0822 10:00:00 another line of the framework, of about the length that such lines have in a real log\n"


def main(megabytes: float) -> None:
    """Print the figures."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from unit.measure.collect.profile_examples import EXAMPLES

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.log"
        size = int(megabytes * 1e6)
        event = {"namespace": "", "time_ms": 1_700_000_000_000, "event_type": "POINT_IN_TIME", "key": "train_loss"}
        line = (
            f"{TOKEN}{json.dumps({**event, 'value': 2.5, 'metadata': {'file': 'a.py', 'lineno': 10, 'step_num': 7}})}\n"
        )
        path.write_text(line * (size // len(line)))
        file = storage.named_file(str(path))
        peer = seconds(lambda: [json.loads(one[len(TOKEN) :]) for one in path.open()])
        own = seconds(lambda: read_files(BY_NAME["mllog"], [file], Allowance(UNLIMITED)))
        print(f"MLLOG: {size / 1e6 / own:.0f} MB/s, {peer / own:.1f} times as fast as json.loads line by line")
        for name, profile in LOG_PROFILES.items():
            line = next(f"{line}\n" for known, line, *_ in EXAMPLES if known == name)
            speeds = []
            for text in (line + 9 * OTHER, line):
                path.write_text(text * (size // len(text.encode())))
                took = seconds(lambda profile=profile: read_logs([profile], [file], Allowance(UNLIMITED), ""))
                speeds.append(path.stat().st_size / 1e6 / took)
            print(f"{name}: {speeds[0]:.0f} MB/s where one line of ten is known, {speeds[1]:.0f} where all are")


def seconds(work: Callable[[], object]) -> float:
    """Return the least processor time of three runs."""
    times = []
    for _ in range(3):
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return min(times)


if __name__ == "__main__":
    main(float(sys.argv[1]) if sys.argv[1:] else 20)
