"""The recipes of docs/metrics.md: each config on what the program of the page writes."""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ml_metrics.config.loading import load_file
from ml_metrics.core.model import JobStatus, StoredMetric
from ml_metrics.judge import judge_run
from ml_metrics.measure import Collected, Environment, collect_run
from ml_metrics.store.run_folder import RunFolder

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
(PROGRAM,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
RECIPES = dict(re.findall(r"^```yaml\n# recipe: (.*?)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
STEPS = 60


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(PROGRAM, tmp_path_factory.mktemp("run"))


def trained(program: str, folder: Path) -> Path:
    environment = {**os.environ, "MODEL_DIR": str(folder)}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=120)
    return folder


def written(run: Path, name: str) -> list[float]:
    return [json.loads(line)[name] for line in (run / "train.jsonl").read_text().splitlines()]


def collected(run: Path, recipe: str, folder: Path) -> Collected:
    path = folder / "recipe.yaml"
    path.write_text(RECIPES[recipe], encoding="utf-8")
    loaded = load_file(path)
    environment = Environment.of(loaded.tests[0], {}) if loaded.tests else None
    return collect_run(loaded.metric_collection_config, RunFolder(str(run)), None, environment=environment)


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


def test_tokens_per_second_per_chip(run: Path, tmp_path: Path) -> None:
    found = collected(run, "tokens per second per chip", tmp_path)
    assert (found.warnings, found.missing) == ((), {})
    rates = [2048 / seconds for seconds in written(run, "step_time")[3:]]
    assert values(found)["tokens_per_second_per_chip_median"] == pytest.approx(statistics.median(rates))
    (metric,) = (one for one in found.metrics if one.name == "tokens_per_second_per_chip_median")
    assert (metric.unit, metric.better, metric.points) == ("tokens/s", "higher", STEPS - 3)


@pytest.mark.parametrize(("number", "peak"), [("peak_flops", 197e12), ("50e9", 50e9)])
def test_mfu(run: Path, tmp_path: Path, number: str, peak: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RECIPES, "with the number", RECIPES["MFU"].replace("peak_flops", number))
    found = collected(run, "with the number", tmp_path)
    assert (found.warnings, found.missing) == ((), {})
    shares = [100 * 6 * 8192 * 2048 / seconds / peak for seconds in written(run, "step_time")[3:]]
    assert values(found)["mfu_median"] == pytest.approx(statistics.median(shares))


def test_mfu_is_missing_without_a_known_peak(run: Path, tmp_path: Path) -> None:
    RECIPES["MFU on an unknown device"] = RECIPES["MFU"].replace("v5litepod-1", "cpu")
    found = collected(run, "MFU on an unknown device", tmp_path)
    assert found.missing == {
        "mfu_median": "peak_flops is unknown for cpu: write the number of your device into the expression"
    }


def test_the_loss_falls(run: Path) -> None:
    loss = written(run, "loss")
    assert loss[-1] < loss[0] / 2


def test_loss_curve(run: Path, tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(RECIPES["loss curve"], encoding="utf-8")
    config = load_file(tmp_path / "recipe.yaml")
    assert PROGRAM.count("-= 20 *") + PROGRAM.count(", 20 *") == 2
    (tmp_path / "slow").mkdir()
    slow = trained(PROGRAM.replace("20 *", "2 *"), tmp_path / "slow")
    rules, stored, rows = config.regression_test_config, {}, []
    verdicts = []
    for number, folder in enumerate([run] * 6 + [slow]):
        found = collect_run(config.metric_collection_config, RunFolder(str(folder)), None, curve_of=rules.judges_curve)
        key, ended = f"run-{number}", datetime(2026, 1, 1 + number, tzinfo=UTC)
        judged = judge_run(
            rules,
            found.metrics,
            rows,
            status=JobStatus.SUCCESS,
            run_key=key,
            now=ended,
            curves=found.curves,
            read_curves=lambda keys, _: {each: curve for each, curve in stored.items() if each[0] in keys},
        )
        verdicts.append({verdict.metric: verdict for verdict in judged.verdicts})
        stored[key, "loss"] = found.curves["loss"]
        rows += [
            StoredMetric(key, ended, each.metric, each.value, JobStatus.SUCCESS, each.outcome)
            for each in judged.verdicts
        ]
    assert [each["loss_curve"].outcome for each in verdicts] == ["insufficient_data"] * 5 + ["pass", "fail"]
    assert "the 6 good runs had" in verdicts[-1]["loss_curve"].reason
    assert not verdicts[-1]["loss_final"].broken
