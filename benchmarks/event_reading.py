"""Reading event files, compared with other readers: CPU seconds to read and aggregate, as ratios.

    .venv/bin/python benchmarks/event_reading.py           about five minutes, three gigabytes of temporary files
    .venv/bin/python benchmarks/event_reading.py --quick   a tenth of the size; less precise

Every reader is a separate process, measured after its imports; "whole" is the ratio with them. Fast readers take turns,
four times each, and the minimum counts. Readers that take more than ten times as long run once.

"1 GB, every checksum" is limited by the speed of memory: copying the bytes from the page cache and summing them takes
two thirds of the time. On an idle machine the ratio is about 9; where other processes use the memory, it was 6.5.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from events import files
from events.readers import READERS

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
TURNS = 4
SLOW = {"EventAccumulator", "tbparse"}
TF_DATA = {"1M scalars, old style": 100, "1M scalars, new style": 69, "200 runs of 5,000": 47}
"""The ratio to tf.data (for the old style at full size, otherwise at a tenth), measured once where TensorFlow was
installed.
"""


@dataclass(frozen=True, slots=True)
class Case:
    """A folder of event files, and the target ratio for each peer."""

    name: str
    write: Callable[[Path], None]
    targets: dict[str, float]
    ours: str = "ours"


def cases(scale: float) -> list[Case]:
    """Return all cases. At scale 1 they have the size of a night of runs."""
    million, gigabyte = int(1_000_000 * scale), int(1_000_000_000 * scale)
    one_file = partial(files.scalars_in_one_file, count=million)
    images = partial(files.mostly_images, size=gigabyte, scalars=int(20_000 * scale))
    return [
        Case("1M scalars, old style", partial(one_file, value=files.simple_value),
             {"EventAccumulator": 40, "data server": 3, "data server --checksum": 3, "tbparse": 1}),
        Case("1M scalars, new style", partial(one_file, value=files.tensor_value),
             {"EventAccumulator": 60, "data server": 5, "data server --checksum": 5, "tbparse": 1}),
        Case("200 runs of 5,000", partial(files.runs, count=int(200 * scale), points=5000),
             {"EventAccumulator": 20, "data server": 1.5, "data server --checksum": 1.5}),
        Case("487 files, 20 writers", partial(files.recorded_writers, files=int(487 * scale), points=5500),
             {"data server": 1.3}),
        Case("1 GB, mostly images", images, {"data server": 1.3, "bytes only": 0.5}),
        Case("1 GB, every checksum", images, {"data server --checksum": 8}, "ours --verify"),
        Case("a run of 50 KB", partial(files.scalars_in_one_file, count=800, value=files.simple_value),
             {"EventAccumulator": 1, "tbparse": 1}),
    ]  # fmt: skip


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the size")
    scale = 0.1 if parser.parse_args().quick else 1.0
    print(
        f"{'case':<23}{'CPU s':>7}{'peak MB':>9}  {'peer':<24}{'CPU s':>7}{'ratio':>8}{'target':>8}{'':9}{'whole':>7}"
    )
    for case in cases(scale):
        with tempfile.TemporaryDirectory() as folder:
            case.write(Path(folder))
            compare(case, folder)
        if case.name in TF_DATA:
            print(f"{'':<41}{'tf.data (quoted)':<24}{'':>7}{TF_DATA[case.name]:>7}x")


def compare(case: Case, folder: str) -> None:
    """Run the readers in turns, and print a row for each peer."""
    fastest: dict[str, dict[str, float]] = {}
    whole: dict[str, float] = {}
    for turn in range(TURNS):
        for reader in (case.ours, *case.targets):
            if turn and reader in SLOW:
                continue
            result = _run(reader, folder)
            whole[reader] = min(result["whole"], whole.get(reader, result["whole"]))
            if reader not in fastest or result["seconds"] < fastest[reader]["seconds"]:
                fastest[reader] = result
    ours = fastest[case.ours]
    for peer, target in case.targets.items():
        theirs = fastest[peer]
        if theirs["points"] not in {0, ours["points"]}:
            print(f"{peer} read {theirs['points']} points, we {ours['points']}")
        ratio = theirs["seconds"] / max(ours["seconds"], 0.001)
        verdict = "met" if ratio >= target else "NOT MET"
        print(
            f"{case.name:<23}{ours['seconds']:>7.3f}{ours['peak_mb']:>9}  {peer:<24}{theirs['seconds']:>7.3f}"
            f"{ratio:>7.1f}x{target:>7g}x  {verdict:<7}{whole[peer] / whole[case.ours]:>6.1f}x",
            flush=True,
        )


def _run(reader: str, folder: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, str(HERE / "events" / "readers.py"), reader, folder],
        check=True,
        capture_output=True,
        text=True,
    )
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


if __name__ == "__main__":
    assert set(READERS) >= SLOW
    main()
