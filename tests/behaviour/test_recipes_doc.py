"""The recipes of docs/recipes.md: each config on what the program of the page writes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ml_metrics.collect import Collected, collect_run
from ml_metrics.config.load import load_file
from ml_metrics.run_folder import RunFolder

PAGE = (Path(__file__).parents[2] / "docs" / "recipes.md").read_text(encoding="utf-8")
(PROGRAM,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
RECIPES = dict(re.findall(r"^```yaml\n# recipe: (.*?)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
STEPS = 60


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    environment = {**os.environ, "MODEL_DIR": str(folder)}
    subprocess.run([sys.executable, "-c", PROGRAM], env=environment, check=True, timeout=120)
    return folder


def written(run: Path, name: str) -> list[float]:
    return [json.loads(line)[name] for line in (run / "train.jsonl").read_text().splitlines()]


def collected(run: Path, recipe: str, folder: Path) -> Collected:
    path = folder / "recipe.yaml"
    path.write_text(RECIPES[recipe], encoding="utf-8")
    return collect_run(load_file(path).metric_collection_config, RunFolder(str(run)), None)


def values(found: Collected) -> dict[str, float]:
    return {metric.name: metric.value for metric in found.metrics}


def test_step_time_without_warm_up(run: Path, tmp_path: Path) -> None:
    found = collected(run, "step time", tmp_path)
    assert found.warnings == ()
    times = sorted(written(run, "step_time")[3:])
    measured = values(found)
    assert list(measured) == ["step_time_median", "step_time_p95", "step_time_trimmed_mean"]
    assert measured["step_time_median"] == times[28]
    assert measured["step_time_trimmed_mean"] == pytest.approx(sum(times[5:-5]) / 47)
    assert {metric.points for metric in found.metrics} == {STEPS - 3}


def test_the_loss_falls(run: Path) -> None:
    loss = written(run, "loss")
    assert loss[-1] < loss[0] / 2
