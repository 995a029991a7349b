"""The real sweeps beside the project, the curves that stand in them, and which of them are read."""

import json
import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ml_metrics.config.collection import MetricCollectionConfig
from ml_metrics.core.model import Sweep
from ml_metrics.measure import collect_run
from ml_metrics.store.run_folder import RunFolder

BESIDE = Path(__file__).parents[6] / "shared" / "curves"
"""Files of other programs and authors. Some have no licence, so they are read here and not copied."""
UNITS = {
    "tokens/sec": "tokens/s", "requests/sec": "1/s", "req/sec": "1/s", "MB/sec": "MiB/s", "Gb/sec": "Gb/s",
    "s in fact, whatever the header says": "s",
}  # fmt: skip
"""Units of the expected curves that are written otherwise here. The MB of perftest are 2^20 bytes."""
BETTER = {"bigger": "higher", "smaller": "lower", None: ""}


OWN = {
    "json-own/1": {
        "files": ["*.json"],
        "x": "rate_rps",
        "x_unit": "1/s",
        "series": ["mix"],
        "samples": "n_measure",
        "succeeded": "success_rate",
        "y": {"mean_ttft_ms": {}, "p95_ttft_ms": {}, "mean_itl_ms": {}, "success_rate": {}},
    },
    "llama-bench/2": {
        "files": ["*.csv"],
        "x": "np",
        "y": {
            "aggregate_tps": {"unit": "tokens/s"},
            "mean_ttft_s": {"unit": "s", "better": "lower"},
            "p95_itl_s": {"unit": "s", "better": "lower"},
        },
    },
}
"""What a test file says about files of no program."""


class Point(NamedTuple):
    """An expected number."""

    sample: str
    x_name: str
    x_unit: str
    x: float
    y_name: str
    unit: str
    better: str
    y: float


def expected() -> Iterator[Point]:
    samples = json.loads((BESIDE / "expected.json").read_text())["samples"]
    for sample, curves in samples.items():
        for curve in curves:
            for x, *ys in curve["points"]:
                for about, y in zip(curve["y"], ys, strict=True):
                    if y is not None:
                        unit = UNITS.get(about["unit"], about["unit"])
                        yield Point(
                            sample, curve["x"]["name"], curve["x"]["unit"], x, about["name"].removesuffix(" (ms)"),
                            unit, BETTER[about["better"]], y,
                        )  # fmt: skip


def sweeps_of(sample: str) -> tuple[Sweep, ...]:
    sources = {"curves": {"own": OWN[sample]}} if sample in OWN else {}
    config = MetricCollectionConfig.model_validate({"sources": sources})
    return collect_run(config, RunFolder(str(BESIDE / sample)), None).sweeps


def numbers(sweeps: tuple[Sweep, ...]) -> Counter[tuple[Any, ...]]:
    return Counter(
        (sweep.x_name, sweep.x_unit, point.x, sweep.name.rpartition("/")[2], sweep.unit, sweep.better, point.y)
        for sweep in sweeps
        for point in sweep.points
    )


def read_share() -> tuple[dict[str, tuple[int, int]], list[Point]]:
    """By sample: how many expected numbers are read, and of how many; and those that are not."""
    shares: dict[str, tuple[int, int]] = {}
    missing = []
    of_sample: dict[str, list[Point]] = {}
    for point in expected():
        of_sample.setdefault(point.sample, []).append(point)
    for sample, points in of_sample.items():
        found = numbers(sweeps_of(sample))
        good = 0
        for point in points:
            key = (point.x_name, point.x_unit, point.x, point.y_name.rpartition("/")[2], *point[5:])
            if found[key] > 0 or any(_near(key, other) for other in found if found[other]):
                good += 1
                found[key] -= 1
            else:
                missing.append(point)
        shares[sample] = good, len(points)
    return shares, missing


def _near(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return one[:-1] == other[:-1] and other[-1] is not None and math.isclose(one[-1], other[-1], rel_tol=1e-9)
