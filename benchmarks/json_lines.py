"""Collecting JSON lines of many shapes, compared with a plain loop of the json module, and with pandas.

The loop does the same job, in the shortest way: it parses each line and appends each number, with its step and time, to
a list for its name, from which the same code computes the metrics. Pandas only parses.

CPU time, minimum of two interleaved rounds; a ratio above 1 means that ours is faster. `python benchmarks/json_lines.py
kinds` measures only the shapes whose names contain "kinds".
"""

from __future__ import annotations

import json
import math
import random
import sys
import tempfile
import time
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path[:0] = [str(Path(__file__).parents[1] / "plugins")]

if TYPE_CHECKING:
    from collections.abc import Callable

    from ml_metrics.measure.source import Found

LINES = 1_000_000
FEWER = 200_000
"""Lines of the shapes that are rare, or large."""
ROUNDS = 2
TARGET = 1.0
"""No shape takes longer than the loop."""
RANDOM = random.Random(7)


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
    """The same, but lines everywhere have a metric that is text."""
    return point(number) if number % 100 else point(number).replace('"loss": ', '"loss": "n/a", "lost": ')


def flat(number: int, **more: Any) -> str:
    """A step of a training program."""
    return json.dumps({"step": number, "loss": number * 0.37, "grad_norm": 1.5, "lr": 1e-4, "run": "a", **more}) + "\n"


def kinds(count: int) -> Callable[[int], str]:
    """Lines of so many kinds in turn, each with two numbers of its own."""

    def line(number: int) -> str:
        kind = number % count
        return f'{{"step": {number}, "loss{kind}": {number * 0.37!r}, "accuracy{kind}": {number / LINES!r}}}\n'

    return line


def deep(number: int) -> str:
    """Objects in objects."""
    inner: dict[str, Any] = {"loss": number * 0.37}
    for depth in range(12):
        inner = {f"level{depth}": inner, "value": depth}
    return flat(number, **inner)


def nested_lists(number: int) -> str:
    """Lists, which are no numbers."""
    return flat(number, ids=[[number, number + 1]] * 5)


FILES: dict[str, tuple[str, int, Callable[[int], str]]] = {
    "streams": ("telemetry.jsonl", LINES, stream),
    "results": ("results.jsonl", LINES, point),
    "results, ten lines cut in half": ("results.jsonl", LINES, torn),
    "results, some of them null": ("results.jsonl", LINES, missing),
    "results, some of them booleans": ("results.jsonl", LINES, flagged),
    "results, some of them text": ("results.jsonl", LINES, worded),
    "results, each a sub-run of its own": ("r.jsonl", 50_000, lambda n: point(n).replace('"h', f'"{n}')),
    "flat": ("m.jsonl", LINES, flat),
    "flat and results in turn": ("m.jsonl", LINES, lambda n: flat(n) if n % 2 else point(n)),
    "flat, with times as text": ("m.jsonl", FEWER, lambda n: flat(n, time=f"2026-01-01T00:00:{n % 60:02}Z")),
    "flat, an evaluation every 100": ("m.jsonl", LINES, lambda n: flat(n, eval_loss=1.5) if n % 100 == 0 else flat(n)),
    "flat, booleans": ("m.jsonl", FEWER, lambda n: flat(n, best=n % 7 == 0)),
    "flat, NaN in turn": ("m.jsonl", FEWER, lambda n: flat(n, x=math.nan if n % 2 else 1.5)),
    "flat, NaN and null": ("m.jsonl", FEWER, lambda n: flat(n, x=math.nan, y=None)),
    "flat, numbers written as text": ("m.jsonl", FEWER, lambda n: flat(n, x=str(n / 7))),
    "flat, long text": ("m.jsonl", 50_000, lambda n: flat(n, note=f"{n} " + "x" * 2000)),
    "flat, long text that is not ASCII": (
        "m.jsonl",
        50_000,
        lambda n: flat(n).replace('"a"', '"' + chr(0x8A9E) * 500 + '"'),
    ),
    "flat, huge whole numbers": ("m.jsonl", FEWER, lambda n: flat(n, x=10**40 + n)),
    "flat, 200 fields": ("m.jsonl", 10_000, lambda n: flat(n, **{f"m{one}": n / (one + 1) for one in range(200)})),
    "flat, 5,000 fields": ("m.jsonl", 100, lambda n: flat(n, **{f"m{one}": n / (one + 1) for one in range(5000)})),
    "two kinds in turn": ("m.jsonl", FEWER, kinds(2)),
    "50 kinds in turn": ("m.jsonl", FEWER, kinds(50)),
    "1,000 kinds in turn": ("m.jsonl", FEWER, kinds(1000)),
    "a kind for each line": ("m.jsonl", 50_000, kinds(LINES)),
    "more kinds than are kept": ("m.jsonl", FEWER, kinds(LINES)),
    "lines of random kinds": ("m.jsonl", FEWER, lambda n: kinds(1 + RANDOM.randrange(3))(n) if n % 5 else point(n)),
    "deep": ("m.jsonl", 50_000, deep),
    "lists": ("m.jsonl", FEWER, nested_lists),
    "mostly invalid": ("m.jsonl", FEWER, lambda n: flat(n) if n % 100 == 0 else flat(n)[:-9] + "\n"),
    "mostly plain text": ("m.jsonl", FEWER, lambda n: flat(n) if n % 100 == 0 else f"INFO step {n}: loss 1.5\n"),
    "log records": ("m.jsonl", FEWER, lambda n: flat(n) if n % 100 == 0 else flat(n, level="INFO", msg="saved")),
    "a line of 8 MB": ("m.jsonl", 4, lambda n: flat(n, note="x" * 8_000_000)),
    "objects of 20,000 fields": ("m.jsonl", 4, lambda n: flat(n, more={f"m{one}": one for one in range(20_000)})),
}


def ours(folder: Path) -> int:
    """Return the number of points of all metrics."""
    from ml_metrics.config.collection import MetricCollectionConfig
    from ml_metrics.measure import collect_run
    from ml_metrics.store.run_folder import RunFolder

    config = MetricCollectionConfig.model_validate({"sources": {"json_lines": {"lines": "points"}}})
    found = collect_run(config, RunFolder(str(folder)), None)
    return sum(metric.points for metric in found.metrics)


def json_module(path: Path) -> int:
    """Return the number of points, read by a plain loop and aggregated as ours."""
    from ml_metrics.measure import collect

    sources = dict(collect.SOURCES)
    collect.SOURCES.clear()
    collect.SOURCES["json_lines"] = lambda _: loop(path)
    try:
        return ours(path.parent)
    finally:
        collect.SOURCES.update(sources)


def loop(path: Path) -> Found:
    """Read a file in the shortest way."""
    import numpy as np

    from ml_metrics.core.model import Series
    from ml_metrics.measure.source import Found

    found: defaultdict[Any, list[tuple[float, Any, float]]] = defaultdict(list)
    with path.open("rb") as file:
        for number, text in enumerate(file):
            try:
                line = json.loads(text)
            except ValueError:
                continue
            place = (line.get("group"), line.get("name"), *line.get("dimensions", {}).items())
            step, at = line.get("step", number), line.get("timestamp")
            add_numbers(found, place, line.get("metrics", line), (step, at))
    series = [
        Series(
            ".",
            str(key),
            *(np.array(column, kind) for column, kind in zip(zip(*rows, strict=True), "qdd", strict=True)),
        )
        for key, rows in found.items()
    ]
    return Found(series=series)


def add_numbers(found: defaultdict[Any, list[Any]], place: Any, values: dict[str, Any], when: tuple[Any, Any]) -> None:
    """Append each number to the list of its name."""
    for name, value in values.items():
        if isinstance(value, float | int):
            found[place, name].append((*when, value))
        elif isinstance(value, dict):
            add_numbers(found, (place, name), value, when)


def pandas(path: Path, shape: str) -> int:
    """Return the number of lines. Pandas reads none if one is incomplete, and takes any memory for many fields."""
    import pandas as pd

    if "kind" in shape or "fields" in shape:
        raise ValueError("too many columns")

    return len(pd.read_json(path, lines=True))


def seconds(work: Callable[[], int]) -> float:
    """Return the CPU time of this process, or NaN if the file cannot be read."""
    began = time.process_time()
    try:
        read = work()
    except (ValueError, TypeError, AttributeError):
        return math.nan
    took = time.process_time() - began
    if not read:
        raise SystemExit("nothing was read")
    return took


def warm_up() -> None:
    """Import everything, which takes as long for any file."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "m.jsonl").write_text(flat(0) + flat(1), encoding="utf-8")
        ours(Path(folder))


def main() -> None:
    """Print the table."""
    head = f"{'JSON lines (CPU seconds)':<36}{'lines':>10}{'ours':>8}"
    print(f"{head}{'json':>8}{'ratio':>7}{'pandas':>8}{'ratio':>7}{'target':>8}")
    warm_up()
    for what, (name, lines, line) in FILES.items():
        if not all(word in what for word in sys.argv[1:]):
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, name)
            with path.open("w", encoding="utf-8") as file:
                file.writelines(map(line, range(lines)))
            works = [partial(ours, path.parent), partial(json_module, path), partial(pandas, path, what)]
            rounds = [[seconds(work) for work in works] for _ in range(ROUNDS)]
            own, module, frame = (min(times) for times in zip(*rounds, strict=True))
            met = "met" if module / own >= TARGET else "MISSED"
            ratios = f"{own:>8.2f}{module:>8.2f}{module / own:>7.1f}{frame:>8.2f}{frame / own:>7.1f}"
            print(f"{what:<36}{lines:>10,}{ratios}{f'>= {TARGET:g}':>8}  {met}", flush=True)


if __name__ == "__main__":
    main()
