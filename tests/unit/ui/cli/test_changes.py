"""`ml-metrics changes`: from the warehouse, from files, and for people."""

from __future__ import annotations

import json
import math
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ml_metrics.core.model import JobStatus, Outcome, Workload
from ml_metrics.warehouse import open_warehouse, run_record
from unit.ui.cli.shell import START, Shell, history_file, lines_of
from unit.warehouse.records import MONDAY, metric, run_of, verdict

KEYS = {"index", "uuid", "timestamp", "before", "after", "percent", "in_noise", "certainty", "shown"}
CONFIG = """
regression_test_config:
  metric_success_conditions:
    loss: {comparison: less, success_threshold: {fixed_value: 1}, min_change: {percent: 20}}
"""


def levels(*parts: tuple[float, int], seed: int = 0) -> list[float]:
    random = Random(seed)
    return [level * random.gauss(1, 0.01) for level, count in parts for _ in range(count)]


@pytest.fixture
def history(tmp_path: Path) -> str:
    """A file of three metrics: one with a step, one without, and one from 0."""
    lines = lines_of("loss", levels((100, 30), (110, 30)))
    lines[3]["metric_value"] = None
    lines += [*lines_of("accuracy", levels((0.9, 60))), *lines_of("errors", [0.0] * 40 + [2.0] * 20)]
    lines.append({"uuid": "run-61", "timestamp": (START + timedelta(days=61)).isoformat(), "job_status": "failure"})
    path = tmp_path / "history.jsonl"
    Random(1).shuffle(lines)
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))
    return str(path)


def series(ml: Shell, *argv: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = ml.json("changes", *argv)["series"]
    return found


def test_every_metric_of_a_file_has_its_changes(history: str, ml: Shell) -> None:
    found = series(ml, "--history", history)
    assert list(found) == ["accuracy", "errors", "loss"]
    assert found["accuracy"] == []
    (loss,) = found["loss"]
    assert loss.keys() == KEYS
    assert (loss["uuid"], loss["timestamp"]) == ("run-30", "2026-01-31T00:00:00+00:00")
    assert loss["index"] == 29  # run 3 has no value
    assert (loss["before"], loss["after"]) == (pytest.approx(100, rel=0.01), pytest.approx(110, rel=0.01))
    assert loss["percent"] == pytest.approx((loss["after"] - loss["before"]) / loss["before"] * 100)
    assert loss["in_noise"] == pytest.approx(10, rel=0.6)
    assert 0.5 <= loss["certainty"] <= 1
    (errors,) = found["errors"]
    assert (errors["index"], errors["before"], errors["after"], errors["percent"]) == (40, 0, 2, None)


def test_one_metric(history: str, ml: Shell) -> None:
    assert list(series(ml, "--history", history, "--metric", "loss")) == ["loss"]
    assert "did you mean 'loss'" in ml("changes", "--history", history, "--metric", "los", code=2)


def test_the_least_certainty_and_the_least_size(history: str, ml: Shell) -> None:
    def count(*argv: str) -> int:
        return len(series(ml, "--history", history, "--metric", "loss", *argv)["loss"])

    assert count("--certainty", "1") == 0
    assert count("--min-change", "9") == 1
    assert count("--min-change", "11") == 0


def test_min_change_of_a_condition_is_the_default(history: str, tmp_path: Path, ml: Shell) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG)
    found = series(ml, str(config), "--history", history)
    assert (len(found["loss"]), len(found["errors"])) == (0, 1)
    assert len(series(ml, str(config), "--history", history, "--min-change", "9")["loss"]) == 1


@pytest.fixture
def shifted(tmp_path: Path) -> str:
    """A warehouse with one test: the framework changed with the level."""
    place = f"sqlite:///{tmp_path}/shifted.db"
    with open_warehouse(place) as warehouse:
        for day, value in enumerate(levels((300, 20), (250, 20))):
            ended = MONDAY + timedelta(days=day)
            workload = Workload(JobStatus.SUCCESS, started_at=ended - timedelta(seconds=300), ended_at=ended)
            warehouse.load(
                run_record(
                    run_of(day),
                    workload,
                    [metric("throughput", value), metric("loss", math.nan if day == 9 else 0.5)],
                    [verdict("throughput", Outcome.PASS)],
                    {},
                    accelerator="cpu",
                    framework_version="tf-2.18" if day < 20 else "tf-2.19",
                    owner="me",
                )
            )
    return place


def test_levels_have_the_units_of_the_metric(tmp_path: Path, ml: Shell) -> None:
    argv = ("--history", history_file(tmp_path, {"step_time_p50": levels((0.78, 20), (0.85, 20))}))
    (change,) = series(ml, *argv)["step_time_p50"]
    assert change["shown"].startswith("the level rose from 777 ms to 849 ms (+9.29 %)")
    assert "step_time_p50: the level rose from 777 ms to 849 ms" in " ".join(ml("changes", *argv).split())


def test_a_change_of_the_warehouse_names_what_differs(shifted: str, ml: Shell) -> None:
    out = ml("changes", run_of(0).test, "--warehouse", shifted)
    assert max(map(len, out.splitlines())) <= 80
    sentence, summary = " ".join(out.split()).split(" certain) ")
    assert sentence.startswith("throughput: the level fell from 298.728 to 249.651 (-16.4 %), ")
    assert f"first in run {run_of(20).key} of {MONDAY + timedelta(days=20):%Y-%m-%d}" in sentence
    assert "where framework: tf-2.18 → tf-2.19 (" in sentence
    assert summary == "1 change of level in 1 of 2 metrics"
    (change,) = series(ml, run_of(0).test, "--metric", "throughput", "--warehouse", shifted)["throughput"]
    assert (change["index"], change["uuid"]) == (20, run_of(20).key)
