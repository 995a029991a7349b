"""What the steps record about a run, beside its metrics: its row, its metadata, its quarantine."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ml_metrics import TestDefinition
from ml_metrics.config.definition import Quarantine
from ml_metrics.core.model import JobStatus, Metric, Outcome, Run, Severity, Verdict, Workload
from ml_metrics.judge import Judgement
from ml_metrics.judge.judgement import Unconfirmed
from ml_metrics.measure import Collected
from ml_metrics.pipeline import RunState, steps
from ml_metrics.store.run_folder import RunFolder
from ml_metrics.warehouse import Warehouse, open_warehouse

NOW = datetime.now(UTC)
RUN = Run("t", "t", "r", "local")
PLAIN: dict[str, Any] = {"name": "t", "image": "i", "command": ["c"]}
TYPE = "node.kubernetes.io/instance-type"


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = RunFolder(str(tmp_path / "run"))
    made.write_workload(Workload(JobStatus.SUCCESS, started_at=NOW - timedelta(minutes=1), ended_at=NOW))
    return made


@pytest.fixture
def warehouse(tmp_path: Path) -> Iterator[Warehouse]:
    with open_warehouse(f"sqlite:///{tmp_path}/w.db") as opened:
        yield opened


def definition(**more: Any) -> TestDefinition:
    return TestDefinition.model_validate({**PLAIN, **more})


def goodput(folder: RunFolder, value: float, **more: Any) -> None:
    metric = Metric("goodput", value, "goodput", "goodput")
    folder.write("goodput", {**Collected((metric,)).document(), **more})


def metadata(folder: RunFolder, warehouse: Warehouse, test: TestDefinition) -> dict[str, str]:
    steps.load(test, RUN, RunState(folder), warehouse)
    return dict(warehouse.runs.metadata(RUN.key))


def test_a_run_is_compared_by_what_its_own_files_say_it_ran_on(folder: RunFolder, warehouse: Warehouse) -> None:
    rule = {"comparison": "less", "success_threshold": {"percent_difference": 5}, "baseline": {"same": ["jax"]}}
    test = definition(regression_test_config={"metric_success_conditions": {"loss": rule}})
    for name, jax in (("earlier", "0.8"), ("r", "0.9")):
        run, own = Run("t", "t", name, "local"), RunFolder(f"{folder.path}-{name}")
        own.write_workload(Workload(JobStatus.SUCCESS, ended_at=NOW - timedelta(hours=len(name))))
        own.write("metrics", Collected((Metric("loss", 1.0, "loss", "final"),), metadata={"jax": jax}).document())
        (verdict,) = steps.judge(test, run, RunState(own), warehouse).verdicts
        steps.load(test, run, RunState(own), warehouse)
    assert verdict.reason.endswith("; 0 of 9 runs on jax 0.9: compared with all")


def test_a_row_states_what_was_run(folder: RunFolder, warehouse: Warehouse) -> None:
    goodput(folder, 97.5)
    more = {"mode": "nightly", "framework": "jax", "owner": "vision@example.com", "accelerator": "h100x8"}
    job = steps.load(definition(**more), RUN, RunState(folder), warehouse).job
    assert (job.test_type, job.framework_version, job.owner) == ("nightly", "jax", "vision@example.com")
    assert (job.accelerator, job.goodput, job.verdict) == ("h100x8", 97.5, "skipped")
    assert (job.trial, job.started_by) == (None, None)
    assert warehouse.runs.get(RUN.key) == job


def test_a_row_of_a_test_that_states_nothing_has_empty_texts(folder: RunFolder, warehouse: Warehouse) -> None:
    job = steps.load(definition(), RUN, RunState(folder), warehouse).job
    assert (job.test_type, job.framework_version, job.owner, job.goodput) == ("", "", "unowned", None)


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        (None, {}),
        ({"summary": "even"}, {"host_step_times": "even"}),
        ({"summary": "s", "slow_host": "host 3"}, {"host_step_times": "s", "straggler": "host 3"}),
        ({"summary": "s", "late_host": "host 4"}, {"host_step_times": "s", "straggler": "host 4"}),
        (
            {"summary": "s", "slow_host": "host 3", "late_host": "host 4"},
            {"host_step_times": "s", "straggler": "host 3"},
        ),
    ],
)
def test_the_host_that_was_slower_than_the_others_is_recorded(
    folder: RunFolder, warehouse: Warehouse, hosts: Any, expected: dict[str, str]
) -> None:
    goodput(folder, 90, host_step_times=hosts)
    found = metadata(folder, warehouse, definition())
    assert {name: text for name, text in found.items() if name in {"host_step_times", "straggler"}} == expected


@pytest.mark.parametrize(
    ("more", "node_type"),
    [
        ({}, None),
        ({"node_selector": {TYPE: "n2"}}, "n2"),
        ({"node_selector": {"pool": "a"}}, None),
    ],
)
def test_the_type_of_node_is_the_one_that_the_test_wants(
    folder: RunFolder, warehouse: Warehouse, more: dict[str, Any], node_type: str | None
) -> None:
    assert metadata(folder, warehouse, definition(**more)).get("node_type") == node_type


def test_parameters_are_recorded_as_texts_and_what_the_pod_was_as_it_is(
    folder: RunFolder, warehouse: Warehouse
) -> None:
    folder.write("run", {"params": {"size": 20, "name": "a", "flags": ["x"], "none": None, "off": False}})
    folder.write_workload(Workload(JobStatus.SUCCESS, ended_at=NOW, image="i:1", image_digest="sha256:1", node="n1"))
    assert metadata(folder, warehouse, definition()) == {
        "param.size": "20",
        "param.name": "a",
        "param.flags": '["x"]',
        "param.off": "false",
        "image": "i:1",
        "image_digest": "sha256:1",
        "node": "n1",
    }


FLAKY = Quarantine(until=NOW.date() + timedelta(days=9), reason="flaky")


@pytest.mark.parametrize(
    "changed",
    [
        Quarantine(until=FLAKY.until + timedelta(days=1), reason="flaky"),
        Quarantine(until=FLAKY.until, reason="very flaky"),
    ],
)
def test_a_quarantine_that_changes_in_its_file_is_recorded_again(
    folder: RunFolder, warehouse: Warehouse, changed: Quarantine
) -> None:
    for wanted in (FLAKY, changed):
        test = definition().model_copy(update={"quarantine": wanted})
        steps.load(test, RUN, RunState(folder), warehouse)
        row = warehouse.quarantines.newest()["t"]
        steps.load(test, RUN, RunState(folder), warehouse)
        assert warehouse.quarantines.newest()["t"] == row, "recorded once"
        assert (row.reason, row.by, row.until.date()) == (
            wanted.reason,
            steps.TEST_FILE,
            wanted.until + timedelta(days=1),
        )


def test_a_quarantine_of_the_file_counts_over_that_of_a_user(folder: RunFolder, warehouse: Warehouse) -> None:
    warehouse.quarantines.set("t", until=NOW + timedelta(days=1), reason="flaky", by="vera")
    steps.load(definition().model_copy(update={"quarantine": FLAKY}), RUN, RunState(folder), warehouse)
    assert warehouse.quarantines.newest()["t"].by == steps.TEST_FILE


def test_a_quarantine_is_lifted_once(folder: RunFolder, warehouse: Warehouse) -> None:
    steps.load(definition().model_copy(update={"quarantine": FLAKY}), RUN, RunState(folder), warehouse)
    lifted = []
    for _ in range(2):
        steps.load(definition(), RUN, RunState(folder), warehouse)
        lifted.append(warehouse.quarantines.newest()["t"])
    assert (lifted[0].reason, lifted[0].by) == ("no longer in the test file", steps.TEST_FILE)
    assert lifted[0] == lifted[1]


def test_a_run_whose_metrics_nobody_collected_is_judged_by_what_there_is(
    folder: RunFolder, warehouse: Warehouse
) -> None:
    conditions = {
        "goodput": {"comparison": "greater", "success_threshold": {"fixed_value": 90}},
        "loss": {"comparison": "less", "success_threshold": {"fixed_value": 1}},
    }
    test = definition(regression_test_config={"metric_success_conditions": conditions})
    goodput(folder, 97.5)
    verdicts = steps.judge(test, RUN, RunState(folder), warehouse).verdicts
    assert {one.metric: str(one.outcome) for one in verdicts} == {"goodput": "pass", "loss": "missing"}
    state = RunState(folder)
    assert state.judgement is not None
    assert state.judgement.verdicts == verdicts


UNCONFIRMED = Unconfirmed("loss", 1, 3, rerun=True)


@pytest.mark.parametrize(
    ("quarantine", "trial", "unconfirmed", "run_id"),
    [
        (None, [], [UNCONFIRMED], "confirm__r__1"),
        (FLAKY, [], [UNCONFIRMED], None),
        (Quarantine(until=NOW.date() - timedelta(days=2), reason="over"), [], [UNCONFIRMED], "confirm__r__1"),
        (None, ["image"], [UNCONFIRMED], None),
        (None, [], [], None),
    ],
)
def test_which_run_confirms_another(
    folder: RunFolder, quarantine: Any, trial: list[str], unconfirmed: list[Unconfirmed], run_id: str | None
) -> None:
    test = definition().model_copy(update={"quarantine": quarantine})
    folder.write("run", {"trial": trial})
    assert steps.confirm(test, RUN, RunState(folder)) is None, "it was not judged"
    folder.write("verdicts", Judgement((), (), passed=False, unconfirmed=tuple(unconfirmed)).document())
    found = steps.confirm(test, RUN, RunState(folder))
    assert (found and found.run_id) == run_id


def test_the_gate_states_each_reason_in_its_order(folder: RunFolder) -> None:
    failed = Verdict("loss", Outcome.FAIL, 0.7, None, "less than 0.6", reason="0.7 is not less than 0.6")
    warned = Verdict("mfu", Outcome.FAIL, 0.1, None, "greater than 0.3", severity=Severity.WARN, reason="low")
    passed = Verdict("speed", Outcome.PASS, 9.0, None, "greater than 1")
    folder.write("verdicts", Judgement((failed, warned, passed), (), passed=False).document())
    folder.write_workload(Workload(JobStatus.TIMEOUT, failure_reason="ExecutionTimeout", ended_at=NOW))
    gate = steps.decide(RunState(folder), {"load_history": "failed", "collect_metrics": "missing"})
    assert gate.reasons == (
        "Task `load_history` is failed",
        "Task `collect_metrics` is missing",
        "the workload ended with timeout: ExecutionTimeout",
        "loss: 0.7 is not less than 0.6",
    )
    assert gate.problems == {
        "task:load_history": "Task `load_history` is failed",
        "task:collect_metrics": "Task `collect_metrics` is missing",
    }
    assert RunState(folder).gate == gate


def test_a_run_that_nobody_judged_alerts_about_its_workload_only_if_that_failed(folder: RunFolder) -> None:
    gate = steps.decide(RunState(folder), {"judge_run": "failed"})
    assert gate.reasons == ("Task `judge_run` is failed", "there are no verdicts: the run was not judged")
    assert gate.problems == {"task:judge_run": "Task `judge_run` is failed"}
    folder.write_workload(Workload(JobStatus.FAILURE, failure_reason="OOMKilled", ended_at=NOW))
    gate = steps.decide(RunState(folder), {"judge_run": "failed"})
    assert gate.problems["job_status:failure/OOMKilled"] == "the workload ended with failure: OOMKilled"
    assert len(gate.problems) == 2
