"""The steps of a run, without Airflow."""

from __future__ import annotations

import math
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tensorboardX import SummaryWriter

from ml_metrics import TestDefinition
from ml_metrics.config.collection import MetricCollectionConfig
from ml_metrics.config.conditions import RegressionTestConfig
from ml_metrics.config.definition import Quarantine
from ml_metrics.core.model import JobStatus, Metric, Outcome, Run, Verdict, Workload
from ml_metrics.measure import Collected
from ml_metrics.pipeline import RunState, steps
from ml_metrics.store.documents import Documents
from ml_metrics.store.run_folder import RunFolder
from ml_metrics.warehouse import Warehouse, open_warehouse
from ml_metrics_telemetry import GoodputRecorder

TODAY = datetime.now(UTC).date()
FLAKY = Quarantine(until=TODAY + timedelta(days=2), reason="flaky")
CONDITIONS = {"loss": {"comparison": "less", "success_threshold": {"fixed_value": 0.5}}}
RUN = Run("t", "t", "r", "local")


def definition(quarantine: Quarantine | None = None) -> TestDefinition:
    config = {"metric_success_conditions": CONDITIONS}
    return TestDefinition(name="t", image="i", command=("c",), quarantine=quarantine, regression_test_config=config)


def measured_run(folder: RunFolder, loss: float) -> None:
    now = datetime.now(UTC)
    folder.write("run", {"test_file": definition().model_dump(mode="json"), "params": {"epochs": 3}})
    folder.write_workload(Workload(JobStatus.SUCCESS, started_at=now - timedelta(minutes=1), ended_at=now))
    folder.write("metrics", Collected((Metric("loss", loss, "loss", "final"),)).document())


def test_a_failing_run_reads_each_document_once_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = RunFolder(str(tmp_path / "run"))
    measured_run(folder, loss=0.7)
    reads: Counter[str] = Counter()
    read = Documents.read
    monkeypatch.setattr(Documents, "read", lambda self, name: (reads.update([name]), read(self, name))[1])
    with open_warehouse(f"sqlite:///{tmp_path}/w.db") as warehouse:
        steps.judge(definition(), RUN, RunState(folder), warehouse)
        assert reads == {"workload": 1, "metrics": 1, "goodput": 1, "efficiency": 1}
        reads.clear()
        steps.load(definition(), RUN, RunState(folder), warehouse, {"judge_run": "success"})
        assert reads == {"workload": 1, "metrics": 1, "goodput": 1, "efficiency": 1, "verdicts": 1, "run": 1}
    reads.clear()
    gate = steps.decide(RunState(folder), {"judge_run": "success"})
    assert reads == {"workload": 1, "verdicts": 1}
    assert list(gate.problems) == ["out_of_bounds:loss"]


@pytest.mark.parametrize(("severity", "reasons"), [("fail", ["loss"]), ("warn", [])])
def test_only_a_broken_condition_that_fails_runs_is_a_reason(severity: str, reasons: list[str], tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path / "run"))
    measured_run(folder, loss=0.7)
    config = RegressionTestConfig(metric_success_conditions={"loss": {**CONDITIONS["loss"], "severity": severity}})
    test = definition().model_copy(update={"regression_test_config": config})
    with open_warehouse(f"sqlite:///{tmp_path}/w.db") as warehouse:
        steps.judge(test, RUN, RunState(folder), warehouse)
    gate = steps.decide(RunState(folder), {"judge_run": "success"})
    assert [one.partition(":")[0] for one in gate.reasons] == reasons
    assert list(gate.problems) == ["out_of_bounds:loss"], "a warning is in messages, too"


def test_a_run_with_a_failed_task_says_so_where_it_is_recorded(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path / "run"))
    measured_run(folder, loss=0.3)
    written = Collected((Metric("loss", 0.3, "loss", "final"),), metadata={"failed_tasks": "of the workload"})
    folder.write("metrics", written.document())
    with open_warehouse(f"sqlite:///{tmp_path}/w.db") as warehouse:
        steps.judge(definition(), RUN, RunState(folder), warehouse)

        def recorded(states: dict[str, str] | None) -> str | None:
            steps.load(definition(), RUN, RunState(folder), warehouse, states)
            return warehouse.runs.metadata(RUN.key).get("failed_tasks")

        passed = dict.fromkeys(steps.TASKS[:4], "success")
        assert recorded({**passed, "measure_goodput": "skipped"}) is None
        assert recorded({**passed, "measure_goodput": "failed", "collect_metrics": "missing"}) == (
            "collect_metrics, measure_goodput"
        )
        steps.decide(RunState(folder), {**passed, "measure_goodput": "failed", "load_history": "failed"})
        assert recorded(None) == "measure_goodput"  # the command that loads does what `load_history` could not
        assert recorded(passed) is None


@pytest.mark.parametrize(
    ("workload", "task", "state", "failed"),
    [
        (JobStatus.SUCCESS, "run_workload", "failed", ["run_workload"]),
        (JobStatus.SUCCESS, "run_workload", "success", []),
        (JobStatus.FAILURE, "run_workload", "failed", []),  # one failure, which the workload explains
        (JobStatus.FAILURE, "run_workload", "success", []),
        (JobStatus.FAILURE, "judge_run", "failed", ["judge_run"]),
        *((JobStatus.SUCCESS, "judge_run", bad, ["judge_run"]) for bad in ("missing", "upstream_failed", "running")),
        *((JobStatus.SUCCESS, "judge_run", good, []) for good in ("success", "skipped")),
    ],
)
def test_which_tasks_fail_a_run(workload: JobStatus, task: str, state: str, failed: list[str], tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path / "run"))
    measured_run(folder, loss=0.3)
    folder.write_workload(Workload(workload, failure_reason="ExitCode:3", ended_at=datetime.now(UTC)))
    with open_warehouse(f"sqlite:///{tmp_path}/w.db") as warehouse:
        steps.judge(definition(), RUN, RunState(folder), warehouse)
        steps.load(definition(), RUN, RunState(folder), warehouse, {task: state})
        assert warehouse.runs.metadata(RUN.key).get("failed_tasks", "") == ", ".join(failed)
    gate = steps.decide(RunState(folder), {task: state})
    ended = [] if workload is JobStatus.SUCCESS else ["the workload ended with failure: ExitCode:3"]
    assert [reason for reason in gate.reasons if not reason.startswith("loss")] == [
        *(f"Task `{name}` is {state}" for name in failed),
        *ended,
    ]
    assert {f"task:{name}" for name in failed} == {name for name in gate.problems if name.startswith("task:")}
    assert ("job_status:failure/ExitCode:3" in gate.problems) == (workload is JobStatus.FAILURE)


def test_a_run_without_any_condition_is_recorded(tmp_path: Path) -> None:
    folder, plain = RunFolder(str(tmp_path / "run")), TestDefinition(name="t", image="i", command=("c",))
    measured_run(folder, loss=0.7)
    with open_warehouse(f"sqlite:///{tmp_path}/w.db") as warehouse:
        steps.judge(plain, RUN, RunState(folder), warehouse)
        assert steps.load(plain, RUN, RunState(folder), warehouse).job.verdict == "recorded"
        folder.write_workload(Workload(JobStatus.FAILURE, ended_at=datetime.now(UTC)))
        steps.judge(plain, RUN, RunState(folder), warehouse)
        assert steps.load(plain, RUN, RunState(folder), warehouse).job.verdict == "fail"


@pytest.mark.parametrize("until", ["9999-12-31", "9999-01-01", "9998-12-31", "0001-01-01"])
def test_a_run_is_loaded_whatever_day_its_quarantine_lasts_to(tmp_path: Path, until: str) -> None:
    test = definition(Quarantine(until=until, reason="for ever"))
    folder = RunFolder(str(tmp_path / "run"))
    measured_run(folder, loss=0.1)
    with open_warehouse(f"sqlite:///{tmp_path}/w.db") as warehouse:
        for _ in range(2):
            steps.judge(test, RUN, RunState(folder), warehouse)
            steps.load(test, RUN, RunState(folder), warehouse, {"judge_run": "success"})
        found = warehouse.quarantines.newest().get("t")
    assert (found is not None and found.holds(datetime.now(UTC))) == (until > "9000")


def test_a_quarantine_set_by_a_user_stays(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    with open_warehouse(f"sqlite:///{tmp_path}/w.db") as warehouse:
        warehouse.quarantines.set("t", until=now + timedelta(days=1), reason="a move", by="vera")
        steps._record_quarantine(definition(), warehouse)
        steps._record_quarantine(definition(Quarantine(until=TODAY - timedelta(days=1), reason="over")), warehouse)
        assert warehouse.quarantines.newest()["t"].by == "vera"
        assert warehouse.quarantines.newest()["t"].holds(now)


def test_the_verdict_on_a_change_of_level_names_the_digest_behind_a_floating_tag(tmp_path: Path) -> None:
    rule = {"comparison": "less", "success_threshold": {"change_point": {}}}
    config = {"metric_success_conditions": {"loss": rule}}
    test = TestDefinition(
        name="t", image="train:nightly", command=("c",), framework="jax", regression_test_config=config
    )
    start, reason = datetime.now(UTC) - timedelta(days=60), ""
    with open_warehouse(f"sqlite:///{tmp_path}/w.db") as warehouse:
        for number in range(40):
            digest, loss = ("sha256:old", 1.0) if number < 30 else ("sha256:new", 1.3)
            run = Run("t", "t", f"r{number}", "local")
            folder = RunFolder(str(tmp_path / run.key))
            folder.write("run", {"params": {"epochs": 3, "api_token": f"private-{digest}"}})
            at = start + timedelta(days=number)
            folder.write_workload(
                Workload(JobStatus.SUCCESS, started_at=at, ended_at=at, image="train:nightly", image_digest=digest)
            )
            metadata = {"jax_version": "0.7.1" if number < 30 else "0.7.2", "run_name": f"unique-{number}"}
            value = Metric("loss", loss + (number * 7 % 5 - 2) * 0.004, "loss", "final")
            folder.write("metrics", Collected((value,), metadata=metadata).document())
            (verdict,) = steps.judge(test, run, RunState(folder), warehouse).verdicts
            reason = verdict.reason or reason
            steps.load(test, run, RunState(folder), warehouse)
    assert "image_digest: sha256:old → sha256:new" in reason
    assert "jax_version: 0.7.1 → 0.7.2" in reason
    assert "param.api_token (values not shown)" in reason
    assert "private" not in reason
    assert "run_name" not in reason


def test_a_verdict_on_mixed_series_says_so(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path / "run"))
    measured_run(folder, loss=0.3)
    mixed = {"loss": "it mixes the points of two folders"}
    folder.write("metrics", Collected((Metric("loss", 0.3, "loss", "final"),), mixed=mixed).document())
    with open_warehouse(f"sqlite:///{tmp_path}/w.db") as warehouse:
        (verdict,) = steps.judge(definition(), RUN, RunState(folder), warehouse).verdicts
    assert verdict.outcome is Outcome.PASS
    assert verdict.reason.endswith(mixed["loss"])


def test_a_workload_states_nothing_about_its_pod(tmp_path: Path) -> None:
    """Releases and searches rest on the image that the cluster has reported."""
    folder = RunFolder(str(tmp_path / "run"))
    measured_run(folder, loss=0.3)
    now = datetime.now(UTC)
    folder.write_workload(Workload(JobStatus.SUCCESS, started_at=now, ended_at=now, image="train:1", node="n1"))
    written = {"image": "other:2", "image_digest": "sha256:other", "node": "n2", "param.epochs": "4", "jax": "0.7.1"}
    folder.write("metrics", Collected((Metric("loss", 0.3, "loss", "final"),), metadata=written).document())
    with open_warehouse(f"sqlite:///{tmp_path}/w.db") as warehouse:
        steps.load(definition(), RUN, RunState(folder), warehouse)
        recorded = warehouse.runs.metadata(RUN.key)
    expected = {"image": "train:1", "node": "n1", "param.epochs": "3", "jax": "0.7.1"}
    assert {name: recorded.get(name) for name in {**written, **expected}} == {"image_digest": None, **expected}


def test_expressions_use_the_accelerator_and_the_parameters_of_the_run(tmp_path: Path) -> None:
    collection = {"expressions": {"examples": "metric('loss_final') * param('batch') * chips"}}
    test = TestDefinition.model_validate(
        {
            "name": "rate-v5e",
            "image": "i",
            "command": ["c"],
            "accelerator": "v5litepod-8",
            "params": {"batch": 16},
            "metric_collection_config": collection,
        }
    )
    with SummaryWriter(str(tmp_path)) as writer:
        writer.add_scalar("loss", 2.0, 1)
    folder = RunFolder(str(tmp_path))
    assert _value(steps.collect(test, RunState(folder)), "examples") == 256
    folder.write("run", {"params": {"batch": 4}})
    assert _value(steps.collect(test, RunState(folder)), "examples") == 64


def _value(collected: Collected, metric: str) -> float:
    return next(one.value for one in collected.metrics if one.name == metric)


def test_ignored_tags_are_no_goodput_metrics_either(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path / "run"))
    recorder = GoodputRecorder("t", "log", True, folder=folder.path)
    recorder.record_job_start_time()
    recorder.record_step_start_time(0)
    recorder.record_job_end_time()
    recorder.close()
    test = definition().model_copy(
        update={
            "metric_collection_config": MetricCollectionConfig(
                include_tags=("loss",), tags_to_ignore=("badput_*", "re:step_time_.*")
            )
        }
    )
    steps.measure_goodput(test, RunState(folder))
    names = {metric.name for metric in RunState(folder).metrics}
    assert {"goodput", "disruptions"} <= names
    assert not [name for name in names if name.startswith(("badput_", "step_time_"))]
    document = folder.read("goodput")
    assert document is not None
    assert document["badput_seconds"]["other"] >= 0


def test_parameters_are_recorded_without_what_only_states_how_the_run_was_started(tmp_path: Path) -> None:
    folder, given = RunFolder(str(tmp_path / "run")), {"epochs": 3, "size": None, "trial": "yes", "notify": "a@b.c"}
    measured_run(folder, loss=0.3)
    folder.write("run", {"params": given})
    with_own = definition().model_dump(mode="json", exclude_unset=True) | {"params": {"trial": "a", "epochs": 1}}
    with open_warehouse(f"sqlite:///{tmp_path}/w.db") as warehouse:
        for test, names in ((definition(), {"epochs"}), (TestDefinition.model_validate(with_own), {"epochs", "trial"})):
            steps.load(test, RUN, RunState(folder), warehouse)
            found = {name.removeprefix("param.") for name in warehouse.runs.metadata(RUN.key) if "param." in name}
            assert found == names


def test_a_goodput_log_without_an_end_ends_with_its_workload(tmp_path: Path) -> None:
    folder, ended = RunFolder(str(tmp_path / "run")), datetime.now(UTC) + timedelta(hours=1)
    recorder = GoodputRecorder("t", "log", True, folder=folder.path)
    recorder.record_job_start_time()
    for step in range(3):
        recorder.record_step_start_time(step)
    recorder.close()
    folder.write_workload(Workload(JobStatus.FAILURE, started_at=ended - timedelta(hours=1), ended_at=ended))
    report = steps.measure_goodput(definition(), RunState(folder))
    assert report.total_seconds == pytest.approx(3600, abs=60)


def test_a_log_of_a_known_program_has_goodput_without_a_recorder(tmp_path: Path) -> None:
    began = datetime(2026, 8, 22, 10, tzinfo=UTC)
    line = "I0822 10:01:{0:02}.500000 1 m.py:2] completed step: {0}, seconds: 1.0, loss: 2.1\n"
    lines = (line.format(step) for step in range(40))
    (tmp_path / "train.log").write_text("".join(lines))
    config = MetricCollectionConfig.model_validate({"sources": {"logs": {"profile": "maxtext"}}})
    test = definition().model_copy(update={"metric_collection_config": config})
    folder = RunFolder(str(tmp_path))
    folder.write_workload(Workload(JobStatus.SUCCESS, started_at=began, ended_at=began + timedelta(seconds=100)))
    report = steps.measure_goodput(test, RunState(folder))
    assert report.goodput_percent == pytest.approx(40, abs=0.01)
    assert next(one.value for one in RunState(folder).metrics if one.name == "goodput") == report.goodput_percent


def test_a_curve_is_collected_judged_and_stored(tmp_path: Path) -> None:
    rule = {"loss_curve": {"curve": {"within": "3 sd", "from_step": 10}}, "default": {"comparison": "less"}}
    test = definition().model_copy(
        update={"regression_test_config": RegressionTestConfig(metric_success_conditions=rule)}
    )
    with open_warehouse(f"sqlite:///{tmp_path}/w.db") as warehouse:
        judgements = [_trained(tmp_path, test, number, warehouse, 0.02) for number in range(6)]
        assert [found["loss_curve"].outcome for found in judgements] == ["insufficient_data"] * 5 + ["pass"]
        found = _trained(tmp_path, test, 6, warehouse, 0.005)
        assert not found["loss_final"].broken
        assert found["loss_curve"].outcome == "fail"
        assert "the 6 good runs had" in found["loss_curve"].reason
        again = _trained(tmp_path, test, 6, warehouse, 0.02)
        assert again["loss_curve"].outcome == "pass"
        (row,) = (each for each in warehouse.metrics.values("t", "loss_curve", 1))
        assert (row.outcome, row.value) == ("pass", again["loss_curve"].value)


def _trained(place: Path, test: TestDefinition, number: int, warehouse: Warehouse, rate: float) -> dict[str, Verdict]:
    """Run all steps after a workload whose loss ends at the same value whatever the rate."""
    run, folder = Run("t", "t", f"r{number}", "local"), RunFolder(str(place / f"run{number}-{rate}"))
    ended = datetime.now(UTC) + timedelta(minutes=number)
    folder.write("run", {"test_file": test.model_dump(mode="json", exclude_unset=True), "params": {}})
    folder.write_workload(Workload(JobStatus.SUCCESS, started_at=ended - timedelta(minutes=1), ended_at=ended))
    with SummaryWriter(folder.path) as writer:
        for step in range(1_000):
            loss = 1 + 8 * math.exp(-step * rate) + 0.01 * math.sin(step * number)
            writer.add_scalar("loss", loss, step, walltime=ended.timestamp())
    steps.collect(test, RunState(folder))
    found = steps.judge(test, run, RunState(folder), warehouse)
    steps.load(test, run, RunState(folder), warehouse)
    return {verdict.metric: verdict for verdict in found.verdicts}
