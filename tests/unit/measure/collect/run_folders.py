"""Series and run folders for tests of collecting."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import numpy as np
from tensorboardX import SummaryWriter

from ml_metrics.config.collection import MetricCollectionConfig
from ml_metrics.core.limits import Limits
from ml_metrics.core.model import Metric, Series, Workload
from ml_metrics.measure import STEP_TIMES, Collected, collect_run, lines
from ml_metrics.store.run_folder import RunFolder


def series(values: list[float], wall_times: list[float] | None = None, tag: str = "loss", run: str = ".") -> Series:
    times = wall_times or [float(index) for index in range(len(values))]
    return Series(run, tag, np.arange(len(values)), np.array(times, np.float64), np.array(values, np.float64))


def write(folder: Path, **tags: list[float]) -> None:
    """Points at wall times 1000, 1001, ..."""
    with SummaryWriter(str(folder)) as writer:
        for tag, values in tags.items():
            for step, value in enumerate(values):
                writer.add_scalar(tag, value, step, walltime=1000.0 + step)


def collected(
    folder: Path, workload: Workload | None = None, limits: Limits | None = None, **config: object
) -> Collected:
    return collect_run(MetricCollectionConfig.model_validate(config), RunFolder(str(folder)), workload, limits=limits)


def by_name(found: Collected) -> dict[str, Metric]:
    """The metrics without the step times, which every run with enough points has."""
    return {metric.name: metric for metric in found.metrics if metric.strategy != STEP_TIMES}


def values(found: Collected) -> dict[str, float]:
    return {name: metric.value for name, metric in by_name(found).items()}


def write_lines(path: Path, *lines: dict[str, Any] | str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))


def in_any_blocks(name: str, content: bytes, size: int, **config: object) -> Collected:
    """What a file gives, which is the same when it is read in small blocks."""
    with TemporaryDirectory() as folder:
        Path(folder, name).write_bytes(content)
        found = collected(Path(folder), **config)
        with mock.patch.object(lines, "BLOCK_BYTES", size):
            parts = collected(Path(folder), **config)
    if not any("its first lines have" in warning for warning in parts.warnings):  # a small block has fewer of them
        assert sorted(map(repr, parts.metrics)) == sorted(map(repr, found.metrics))
        assert (parts.warnings, sorted(parts.metadata.items())) == (found.warnings, sorted(found.metadata.items()))
    assert not [warning for warning in found.warnings if "could not be read" in warning]
    return found
