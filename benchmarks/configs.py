"""Reading test files, compared with PyYAML alone; and finding one test among many, compared with among few."""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

sys.path.insert(0, str(Path(__file__).parents[1] / "plugins"))

from ml_metrics.config.loading import load_test, load_tests

if TYPE_CHECKING:
    from collections.abc import Callable

FEW, MANY, ROUNDS = 10, 1_000, 5
FINDS = 50
TEST = """\
framework: tf
model: m{number}
mode: func
accelerator: v5litepod-16
image: gcr.io/my-project/m{number}:nightly
command: [python3, train.py, "--model_dir=$(MODEL_DIR)", "--epochs={{{{ params.epochs }}}}"]
params: {{epochs: {{default: 10, type: integer, minimum: 1}}}}
schedule: "{minute} 8 * * *"
timeout: 1h30m
owner: vision-team
metric_collection_config:
  default_aggregation_strategies: [final]
  metric_to_aggregation_strategy: {{accuracy: [final, max]}}
regression_test_config:
  required_metrics: [loss_final]
  metric_success_conditions:
    accuracy_final: {{comparison: greater, success_threshold: {{fixed_value: 0.96}}}}
    total_wall_time: {{comparison: less, success_threshold: {{stddevs_from_mean: 5.0}}}}
"""


def main() -> None:
    """Print the measurements."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["AIRFLOW_HOME"] = str(Path(folder, "home"))
        few, many = _written(Path(folder, "few"), FEW), _written(Path(folder, "many"), MANY)
        ours, peer, find_few, find_many = _interleaved(
            lambda: load_tests(many), lambda: _yaml_alone(many), lambda: _find(few, FEW), lambda: _find(many, MANY)
        )
    print(f"{'measurement':<44}{'ours':>10}{'peer':>10}{'ratio':>8}{'target':>8}  met")
    _row(f"read {MANY} test files (peer: PyYAML alone)", ours, peer, 3.0)
    _row(f"find a test among {MANY} (peer: among {FEW})", find_many / FINDS, find_few / FINDS, 1.5)


def _written(folder: Path, count: int) -> Path:
    folder.mkdir()
    for number in range(count):
        (folder / f"file-{number}.yaml").write_text(TEST.format(number=number, minute=number % 60), encoding="utf-8")
    return folder


def _yaml_alone(folder: Path) -> list[Any]:
    return [yaml.load(path.read_bytes(), yaml.CSafeLoader) for path in sorted(folder.iterdir())]


def _find(folder: Path, count: int) -> None:
    """Find tests as a task does that has found them before."""
    for number in range(FINDS):
        load_test(folder, f"tf-m{number % 5 * count // 5}-func-v5litepod-16")


def _interleaved(*jobs: Callable[[], object]) -> list[float]:
    """Return the median CPU time of each job. Jobs take turns, so that other load affects all of them equally."""
    taken: list[list[float]] = [[] for _ in jobs]
    for job in jobs:
        job()  # warm the caches of files, schedules and hints
    for _ in range(ROUNDS):
        for job, times in zip(jobs, taken, strict=True):
            begin = time.process_time()
            job()
            times.append(time.process_time() - begin)
    return [statistics.median(times) for times in taken]


def _row(what: str, ours: float, peer: float, target: float) -> None:
    ratio = ours / peer
    met = "yes" if ratio <= target else "NO"
    print(f"{what:<44}{ours * 1e3:>8.1f}ms{peer * 1e3:>8.1f}ms{ratio:>8.2f}{target:>8.2f}  {met}")


if __name__ == "__main__":
    main()
