"""The task that starts a search for the version that broke a metric: when it does, and only once."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ml_metrics import TestDefinition
from ml_metrics.airflow import warehouse
from ml_metrics.airflow.operators.run import folder_of, run_of
from ml_metrics.airflow.operators.tasks import SearchCause
from ml_metrics.airflow.versions import AirflowSkipException, DagRunTriggerException
from ml_metrics.config.definition import Quarantine
from ml_metrics.core.model import JobStatus, Metric, Outcome, Run, Severity, Verdict, Workload
from ml_metrics.core.settings import Settings
from ml_metrics.judge import Judgement
from ml_metrics.pipeline.experiments import BISECT
from ml_metrics.pipeline.experiments.own_searches import recorded
from ml_metrics.warehouse import run_record

NOW = datetime.now(UTC)
TEST = TestDefinition.model_validate({
    "name": "t", "image": "i", "command": ["c"], "params": {"commit": "HEAD"},
    "on_regression": {"bisect": {"parameter": "commit"}},
})  # fmt: skip


class Airflow:
    """The runs of the search that Airflow knows, with their states."""

    dag_id = "t"

    def __init__(self, run_id: str = "bad") -> None:
        self.run_id, self.paused = run_id, False
        self.runs: dict[str, str] = {}

    def get_dr_count(self, *, dag_id: str, run_ids: list[str], states: list[str]) -> int:
        assert dag_id == BISECT
        return sum(self.runs.get(run) in states for run in run_ids)

    def get_dag(self, dag_id: str) -> Any:
        assert dag_id == BISECT
        return SimpleNamespace(is_paused=self.paused)

    @property
    def context(self) -> dict[str, Any]:
        return {"dag_run": SimpleNamespace(dag_id="t", run_id=self.run_id, conf={}), "ti": self}

    def search(self, test: TestDefinition = TEST) -> DagRunTriggerException:
        """Return the search that the task starts."""
        with pytest.raises(DagRunTriggerException) as started:
            SearchCause(task_id="search_cause", test=test).execute(self.context)
        return started.value

    def no_search(self, test: TestDefinition = TEST) -> str:
        """Return why the task starts none."""
        with pytest.raises(AirflowSkipException) as skipped:
            SearchCause(task_id="search_cause", test=test).execute(self.context)
        return str(skipped.value)


def verdict(outcome: Outcome = Outcome.FAIL, severity: Severity = Severity.FAIL) -> Verdict:
    return Verdict("loss", outcome, 0.7, None, "less than 0.6", severity=severity)


@pytest.fixture
def airflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Airflow:
    """A good run of commit `a`, and three broken ones of commit `b`, with the newest of which the task begins."""
    monkeypatch.setenv("AIRFLOW__ML_METRICS__STORAGE_ROOT", str(tmp_path / "runs"))
    monkeypatch.setenv("AIRFLOW__ML_METRICS__WAREHOUSE_FILE", str(tmp_path / "warehouse.db"))
    about = {"test_type": "", "accelerator": "", "framework_version": ""}
    with warehouse() as opened:
        for number, name in enumerate(("good", "first", "second", "bad")):
            outcome = Outcome.FAIL if number else Outcome.PASS
            value, run = 0.5 + 0.2 * (number > 0), Run("t", "t", name, opened.deployment)
            workload = Workload(JobStatus.SUCCESS, ended_at=NOW - timedelta(hours=9 - number))
            commit = {"param.commit": "b" if number else "a"}
            metrics = [Metric("loss", value, "loss", "final")]
            opened.load(run_record(run, workload, metrics, [verdict(outcome)], commit, **about))
    made = Airflow()
    judge(made, verdict())
    return made


def judge(airflow: Airflow, *verdicts: Verdict) -> None:
    folder_of("t", airflow.context).write("verdicts", Judgement(verdicts, (), passed=False).document())


def test_a_broken_metric_starts_one_search(airflow: Airflow) -> None:
    search = airflow.search()
    good = Run("t", "t", "good", run_of("t", airflow.context).deployment).key
    assert (search.trigger_dag_id, search.dag_run_id) == (BISECT, f"regression__t__{good}")
    assert (search.conf["good"], search.conf["metric"], search.conf["parameter"]) == (good, "loss", "commit")
    assert search.skip_when_already_exists
    assert search.note == "t: loss is out of bounds since a"
    airflow.runs[search.dag_run_id] = "running"
    again = airflow.search()
    assert again.dag_run_id == search.dag_run_id, "Airflow has it already, and starts no second one"


@pytest.mark.parametrize(
    ("state", "waits"), [("queued", True), ("running", True), ("success", False), ("failed", False)]
)
def test_one_search_of_a_test_runs_at_a_time(airflow: Airflow, state: str, waits: bool) -> None:
    first = airflow.search()
    airflow.runs[first.dag_run_id] = state
    with warehouse() as opened:
        run = Run("t", "t", "later good", opened.deployment)
        about = {"test_type": "", "accelerator": "", "framework_version": ""}
        workload = Workload(JobStatus.SUCCESS, ended_at=NOW - timedelta(hours=2))
        metrics = [Metric("loss", 0.5, "loss", "final")]
        opened.load(run_record(run, workload, metrics, [verdict(Outcome.PASS)], {"param.commit": "c"}, **about))
        broken, later = (
            Run("t", "t", "later bad", opened.deployment),
            replace(workload, ended_at=NOW - timedelta(hours=1)),
        )
        opened.load(run_record(broken, later, metrics, [verdict()], {"param.commit": "d"}, **about))
    airflow.run_id = "later bad"
    judge(airflow, verdict())
    if waits:
        assert airflow.no_search() == f"no search is started while {first.dag_run_id} is running"
    else:
        assert airflow.search().dag_run_id != first.dag_run_id


def test_a_paused_search_is_not_started_and_not_remembered(airflow: Airflow) -> None:
    airflow.paused = True
    assert airflow.no_search() == f"no search is started: the DAG {BISECT} is paused"
    deployment = run_of("t", airflow.context).deployment
    assert recorded(Settings.load().storage_root, deployment) == {}
    airflow.paused = False
    search = Run(BISECT, BISECT, airflow.search().dag_run_id, deployment).key
    assert len(recorded(Settings.load().storage_root, deployment)[search]) == 2, "by its test and by its versions"


@pytest.mark.parametrize("verdicts", [(), (verdict(Outcome.PASS),), (verdict(severity=Severity.WARN),)])
def test_nothing_is_searched_without_a_failed_metric(airflow: Airflow, verdicts: tuple[Verdict, ...]) -> None:
    judge(airflow, *verdicts)
    assert airflow.no_search() == "no search is started: no metric is out of bounds"


def test_nothing_is_searched_for_a_run_that_was_not_judged(airflow: Airflow) -> None:
    folder_of("t", airflow.context).remove("verdicts")
    assert airflow.no_search() == "no search is started: no metric is out of bounds"


def test_a_trial_starts_no_search(airflow: Airflow) -> None:
    folder_of("t", airflow.context).write("run", {"trial": ["commit"]})
    assert airflow.no_search() == "a trial starts no search"


@pytest.mark.parametrize(("days", "holds"), [(2, True), (-2, False)])
def test_a_quarantined_test_starts_no_search(airflow: Airflow, days: int, holds: bool) -> None:
    quarantine = Quarantine(until=NOW.date() + timedelta(days=days), reason="flaky")
    test = TEST.model_copy(update={"quarantine": quarantine})
    if holds:
        assert airflow.no_search(test) == "the test is quarantined"
    else:
        assert airflow.search(test).trigger_dag_id == BISECT
