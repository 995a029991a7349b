"""Collecting a million JSON lines, compared with the json module and with pandas.

The peers only parse the lines into numbers; ours computes metrics as well. CPU time, minimum of two interleaved rounds.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path[:0] = [str(Path(__file__).parents[1] / "plugins")]

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LINES = 1_000_000
ROUNDS = 2
TARGET = 3.0
"""Seconds."""


def stream(number: int) -> str:
    """A value of one of seven metrics."""
    time_and_place = f'"timestamp": {1.79e9 + number / 10!r}, "group": "app", "name": "m{number % 7}"'
    return f'{{{time_and_place}, "value": {number * 0.37!r}}}\n'


def point(number: int) -> str:
    """Two metrics of one of eight hosts."""
    metrics = f'{{"loss": {number * 0.37!r}, "accuracy": {number / LINES!r}}}'
    return f'{{"metrics": {metrics}, "dimensions": {{"host": "h{number % 8}", "batch": 64}}}}\n'


def torn(number: int) -> str:
    """The same, but every hundred-thousandth line is cut in half."""
    return point(number) if number % 100_000 else point(number)[:30] + "\n"


def missing(number: int) -> str:
    """The same, but some metrics are null."""
    return point(number) if number % 100 else point(number).replace('"loss": ', '"loss": null, "lost": ')


def flagged(number: int) -> str:
    """The same, but lines everywhere have a boolean metric."""
    return point(number) if number % 100 else point(number).replace('"loss": ', '"loss": true, "lost": ')


def worded(number: int) -> str:
    """The same, but lines everywhere have a metric that is text, so that every piece has to be read line by line."""
    return point(number) if number % 100 else point(number).replace('"loss": ', '"loss": "n/a", "lost": ')


FILES = {
    "streams": ("telemetry.jsonl", stream),
    "results": ("results.jsonl", point),
    "results, ten lines cut in half": ("results.jsonl", torn),
    "results, some of them null": ("results.jsonl", missing),
    "results, some of them booleans": ("results.jsonl", flagged),
    "results, all line by line": ("results.jsonl", worded),
}


def ours(folder: Path) -> int:
    """Return the number of points of all metrics."""
    from ml_metrics.collect import collect_run
    from ml_metrics.config.collection import MetricCollectionConfig
    from ml_metrics.run_folder import RunFolder

    config = MetricCollectionConfig.model_validate({"sources": {"json_lines": {"lines": "points"}}})
    found = collect_run(config, RunFolder(str(folder)), None)
    return sum(metric.points for metric in found.metrics)


def json_module(path: Path) -> int:
    """Return the number of numbers."""
    found = 0
    with path.open("rb") as file:
        for line in file:
            with suppress(ValueError):
                found += len(list(numbers_of(json.loads(line))))
    return found


def numbers_of(line: dict[str, Any]) -> Iterator[float]:
    """Yield the numbers of a line."""
    for value in line.get("metrics", line).values():
        if isinstance(value, float):
            yield value


def pandas(path: Path) -> int:
    """Return the number of lines. With one incomplete line, pandas reads none."""
    import pandas as pd

    return len(pd.read_json(path, lines=True))


def seconds(work: Callable[[], int]) -> float:
    """Return the CPU time of this process, or NaN if the file cannot be read."""
    began = time.process_time()
    try:
        read = work()
    except ValueError:
        return math.nan
    if not read:
        raise SystemExit("nothing was read")
    return time.process_time() - began


def main() -> None:
    """Print the table."""
    head = f"{LINES:,} JSON lines (CPU seconds)"
    print(f"{head:<36}{'ours':>8}{'json':>8}{'ratio':>7}{'pandas':>8}{'ratio':>7}{'target':>9}")
    for what, (name, line) in FILES.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, name)
            with path.open("w") as file:
                file.writelines(map(line, range(LINES)))
            works = (lambda: ours(path.parent), lambda: json_module(path), lambda: pandas(path))  # noqa: B023  (called at once)
            rounds = [[seconds(work) for work in works] for _ in range(ROUNDS)]
            own, module, frame = (min(times) for times in zip(*rounds, strict=True))
            met = "met" if own < TARGET else "MISSED"
            ratios = f"{own:>8.2f}{module:>8.2f}{module / own:>7.1f}{frame:>8.2f}{frame / own:>7.1f}"
            print(f"{what:<36}{ratios}{f'< {TARGET:g} s':>9}  {met}")


if __name__ == "__main__":
    main()
