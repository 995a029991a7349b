"""A test that begins to judge a metric relative to another one: its runs, their rows and what pages say of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any

from ml_metrics import TestDefinition
from ml_metrics.core.model import JobStatus, Metric, Outcome, Run, Workload
from ml_metrics.measure import Collected
from ml_metrics.pipeline import RunState, steps
from ml_metrics.store.run_folder import RunFolder
from ml_metrics.warehouse import Place, open_warehouse, references_of

if TYPE_CHECKING:
    from pathlib import Path

    from ml_metrics.core.model import StoredMetric, Verdict
    from ml_metrics.warehouse import Warehouse

START = datetime(2026, 1, 1, tzinfo=UTC)
PLAIN: dict[str, Any] = {"comparison": "less"}
RELATIVE: dict[str, Any] = {"comparison": "less", "relative_to": "matmul"}
NOISE = Random(1)


def run(place: Path, warehouse: Warehouse, night: int, rule: dict[str, Any], slow: float, loss: float) -> Verdict:
    """Judge and load a run, which writes both metrics; return the verdict on the judged one."""
    config = {"metric_success_conditions": {"step_time": rule}}
    test = TestDefinition(name="t", image="i", command=("c",), regression_test_config=config)
    of_night, folder, ended = (
        Run("t", "t", f"r{night:03}", "local"),
        RunFolder(str(place / f"{night}")),
        night_of(night),
    )
    folder.write_workload(Workload(JobStatus.SUCCESS, started_at=ended - timedelta(hours=1), ended_at=ended))
    values = {"step_time": 0.8 * slow * loss * NOISE.gauss(1, 0.01), "matmul": 0.65 * slow * NOISE.gauss(1, 0.005)}
    folder.write("metrics", Collected(tuple(Metric(n, v, n, "final") for n, v in values.items())).document())
    folder.write("run", {"params": {}})
    judgement = steps.judge(test, of_night, RunState(folder), warehouse)
    steps.load(test, of_night, RunState(folder), warehouse)
    return next(each for each in judgement.verdicts if each.metric == "step_time")


def night_of(night: int) -> datetime:
    return START + timedelta(days=night)


def row(warehouse: Warehouse, night: int) -> StoredMetric:
    at = Place(Run("t", "t", f"r{night:03}", "local").key, "t", night_of(night))
    return next(each for each in warehouse.metrics.of_run(at) if each.metric == "step_time")


def test_slow_machines_pass_and_a_loss_fails_from_the_first_night_with_the_line(tmp_path: Path) -> None:
    with open_warehouse(f"sqlite:///{tmp_path}/w.db") as warehouse:
        before = [run(tmp_path, warehouse, night, PLAIN, 1.0, 1.0) for night in range(25)]
        assert before[-1].outcome is Outcome.PASS
        slow = [run(tmp_path, warehouse, night, RELATIVE, 1.4, 1.0) for night in range(25, 32)]
        assert {each.outcome for each in slow} == {Outcome.PASS}
        assert slow[0].baseline_points == 25
        lost = [run(tmp_path, warehouse, night, RELATIVE, 1.4, 1.1) for night in range(32, 37)]
        assert [str(each.outcome) for each in lost] == ["pass", "pass", "fail", "fail", "fail"]
        stored, passed = row(warehouse, 36), row(warehouse, 31)
        for each in (stored, passed):
            place = Place(each.run_key, "t", each.timestamp)
            reference = references_of(warehouse, place, [each])["step_time"]
            assert (reference.level, reference.since) == (each.reference, None)
            assert abs((reference.percent(each.value) or 0.0) - (10 if each is stored else 0)) < 4
        assert stored.value is not None
        assert stored.upper is not None
        assert 0.8 * 1.4 < stored.upper < stored.value
        assert stored.rule == "no rise that lasts 3 runs, relative to matmul"
