"""Causes: what has to be the same so that two failures are reported together."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics import TestDefinition
from ml_metrics.alerts import causes, fault_sentences, nodes_found
from ml_metrics.alerts.causes import NodeOfRun, cause_of, specific_error, straggler
from ml_metrics.alerts.report import Details
from ml_metrics.core.model import Bounds, JobStatus, Outcome, Run, Verdict, Workload
from ml_metrics.judge import Judgement
from ml_metrics.pipeline import RunState, steps
from ml_metrics.store.run_folder import RunFolder
from ml_metrics.warehouse import Warehouse, nodes_of_runs, open_warehouse
from unit.warehouse.records import MONDAY, record, run_of, workload

if TYPE_CHECKING:
    from pathlib import Path

TEST = TestDefinition(name="t", image="i", command=("c",))
MISSED = Workload(JobStatus.MISSED, "ImagePullBackOff", image="gcr.io/x:1", ended_at=datetime(2026, 1, 2, tzinfo=UTC))
PULL = "image cannot be pulled: gcr.io/x:1"


def cause(workload: Workload, test: TestDefinition = TEST) -> str:
    state = RunState(RunFolder("/nowhere"))
    state.__dict__["recorded_workload"] = workload
    return cause_of(test, Run("t", "t", "r", "d"), state, ["job_status:x"], warehouse=None, log_lines=0)


@pytest.mark.parametrize(
    ("workload", "expected"),
    [
        (MISSED, PULL),
        (replace(MISSED, failure_reason="ErrImagePull"), PULL),
        (replace(MISSED, image=None), ""),
        (replace(MISSED, failure_reason="ClusterUnavailable"), "cluster cannot be reached: the default cluster"),
        (replace(MISSED, failure_reason="NodeLost", node="n1"), "a node was lost: n1"),
        (replace(MISSED, failure_reason="NodeShutdown", node="n1"), "a node was lost: n1"),
        (replace(MISSED, failure_reason="NodeLost"), ""),
        (
            replace(MISSED, failure_reason="Unschedulable", detail="0/3 nodes are available: 3 Insufficient x/tpu."),
            "no node fits cpu: #/# nodes are available: # Insufficient x/tpu.",
        ),
        (replace(MISSED, failure_reason="Unschedulable"), ""),
        (replace(MISSED, failure_reason="QuotaExceeded"), ""),
        (Workload(JobStatus.FAILURE, "ExitCode:1", image="gcr.io/x:1"), ""),
        (Workload(JobStatus.FAILURE, "OOMKilled", image="gcr.io/x:1", node="n1"), ""),
    ],
)
def test_the_cause_of_a_failed_job(workload: Workload, expected: str) -> None:
    assert cause(workload) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ModuleNotFoundError: No module named 'jax2'", "ModuleNotFoundError: No module named 'jax2'"),
        (
            "FileNotFoundError: No such file or directory: '/tmp/tmpab12/data.csv' at 0x7f12ab",
            "FileNotFoundError: No such file or directory: '/tmp/#/data.csv' at #",
        ),
        ("ValueError: step 12 of 300 has no gradient", "ValueError: step # of # has no gradient"),
        ("ConnectionError: host 10.0.0.5 refused the connection", None),
        ("ValueError", ""),
        ("ValueError: 3", ""),
        ("AssertionError: accuracy was below the bound", ""),
        ("RuntimeError: CUDA out of memory while allocating", ""),
        ("RuntimeError: process was killed by a signal", ""),
        ("SystemExit: 1", ""),
        ("", ""),
    ],
)
def test_only_a_specific_error_is_a_cause(line: str, expected: str | None) -> None:
    assert specific_error(line) == (line if expected is None else expected)


PARTS = st.tuples(
    st.sampled_from(["ImagePullBackOff", "NodeLost", "Preempted", "Evicted", "Unschedulable", "ClusterUnreachable"]),
    st.text("ab:/ .é", min_size=1, max_size=6).map(str.strip).filter(bool).map(lambda text: " ".join(text.split())),
    st.sampled_from(["", "one", "two"]),
)


@given(PARTS, PARTS)
def test_causes_that_differ_in_any_part_are_different(one: tuple[str, str, str], other: tuple[str, str, str]) -> None:
    assert (_cause_of(one) == _cause_of(other)) == (_parts(one) == _parts(other))


def _cause_of(parts: tuple[str, str, str]) -> str:
    reason, subject, name = parts
    cluster = {"cluster": {"project": "my-project", "location": "us-east1", "name": name}} if name else {}
    test = TestDefinition.model_validate({"name": "t", "image": "i", "command": ["c"], **cluster})
    workload = replace(MISSED, failure_reason=reason, image=subject, node=subject, detail=subject)
    return cause(workload, test)


def _parts(parts: tuple[str, str, str]) -> tuple[str, ...]:
    """Return what has to be the same: an image is the same on every cluster, and a cluster has no image."""
    reason, subject, name = parts
    return {"ImagePullBackOff": (reason, subject), "ClusterUnreachable": (reason, name)}.get(reason, parts)


def test_a_long_cause_is_cut_and_stays_different() -> None:
    one, other = (cause(replace(MISSED, image=f"gcr.io/{'x' * 400}:{tag}")) for tag in "ab")
    assert one != other
    assert len(one) <= 300


def test_no_log_is_read_where_logs_stay_out_of_messages(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path))
    folder.write_workload(Workload(JobStatus.FAILURE, "ExitCode:1"))
    run = Run("t", "t", "r", "d")
    for lines in (0, 20):
        assert cause_of(TEST, run, RunState(folder), ["job_status:x"], warehouse=None, log_lines=lines) == ""


RUNS = 80
TESTS = ["one", "two"]
SLOW = "node-2"
SINCE, UNTIL = MONDAY - timedelta(days=1), MONDAY + timedelta(days=400)


FAULT = {
    "what": "kill", "at": "step 20", "hosts": [0], "state": "done", "note": "", "recovered": 48.0, "survived": True,
    "restoring": 17.0, "recomputed": 9.0, "steps_lost": 4, "loss_jump": "",
}  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "usual", "told"),
    [
        ({}, 31.0, ": recovered in 48 s, usually 31 s: 17 s of it in restoring; 4 steps lost"),
        ({"restoring": None}, None, ": recovered in 48 s: 9 s of it in computing steps again; 4 steps lost"),
        ({"restoring": 1.0, "recomputed": 2.0, "steps_lost": 0}, None, ": recovered in 48 s"),
        ({"recovered": None}, 31.0, ": the run ended well"),
        ({"recovered": None, "survived": False}, 31.0, ": not recovered"),
        ({"state": "refused", "note": "Forbidden"}, 31.0, ": not inflicted, Forbidden"),
    ],
)
def test_what_became_of_a_fault_is_a_sentence(changed: dict[str, Any], usual: float | None, told: str) -> None:
    assert fault_sentences([{**FAULT, **changed}], usual) == [f"kill on host 0 (step 20){told}"]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """Two tests on 8 nodes in turn, of which one takes 4 % longer. The level of the first test changes."""
    folder: Path = tmp_path_factory.mktemp("nodes")
    opened = open_warehouse(f"sqlite:///{folder}/warehouse.db")
    random, records = Random(3), []
    for day in range(RUNS):
        for test in TESTS:
            node = f"node-{random.randrange(8)}"
            level = 100.0 if day < 40 or test == "two" else 130.0
            value = level * random.gauss(1, 0.005) * (1.04 if node == SLOW else 1)
            metadata = {} if day % 10 == 9 else {"node": node}
            records.append(record(day, {"step_time_p50": value, "step_time_copy": value}, test=test, metadata=metadata))
    opened.load_all(records)
    return opened


def test_the_slow_node(warehouse: Warehouse) -> None:
    found = nodes_found(warehouse, TESTS, SINCE, UNTIL)
    assert [one.name for one in found.effects if one.slow] == [SLOW]
    worst = found.effects[0]
    assert worst.tests == ("one", "two")
    assert worst.low < 4 < worst.high
    assert (found.runs, found.unknown, found.cut) == (2 * RUNS - 16, 16, False)


@pytest.mark.parametrize(("limits", "cut"), [((160, 2), False), ((159, 2), True), ((160, 1), True)])
def test_more_values_or_tests_than_are_compared_are_told(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int], cut: bool
) -> None:
    monkeypatch.setattr(causes, "MAX_VALUES", limits[0])
    monkeypatch.setattr(causes, "MAX_TESTS", limits[1])
    assert nodes_found(warehouse, TESTS, SINCE, UNTIL, metrics=("step_time_p50",)).cut is cut


def test_nodes_are_compared_for_the_first_metrics_of_a_run(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(causes, "MAX_COMPARED", 1)
    node = NodeOfRun(run_of(81, "two"), workload(81, node=SLOW), warehouse)
    metrics = ("step_time_p50", "step_time_copy", "step_time_p50")
    assert [node.explains(verdict_of(one, 103.0)) is not None for one in metrics] == [True, False, True]


@pytest.mark.parametrize("how", ["slow_host", "late_host"])
def test_a_host_that_holds_the_others_up_is_told(how: str) -> None:
    steps_of_hosts = {"summary": "3 hosts, host b is 4 % slower", "slow_host": None, "late_host": None}
    assert straggler({"host_step_times": {**steps_of_hosts, how: "b"}}) == (
        "One host holds the others up: 3 hosts, host b is 4 % slower",
    )
    assert straggler({"host_step_times": steps_of_hosts}) == straggler({}) == straggler(None) == ()


def test_a_run_whose_end_is_not_known_is_compared_up_to_now(warehouse: Warehouse) -> None:
    unknown = replace(workload(81, node=SLOW), ended_at=None)
    assert NodeOfRun(run_of(81, "two"), unknown, warehouse).explains(verdict_of("step_time_p50", 1e9)) is None


@pytest.mark.parametrize(
    ("node", "value", "day", "explained"),
    [
        (SLOW, 103.0, 81, True),
        (SLOW, 110.0, 81, False),
        (SLOW, 101.0, 81, False),
        ("node-3", 103.0, 81, False),
        (None, 103.0, 81, False),
        (SLOW, 103.0, RUNS + 61, False),
    ],
    ids=["its node", "more than its node", "within bounds", "another node", "no node", "slow two months ago"],
)
def test_a_run_explained_by_its_node(
    warehouse: Warehouse, node: str | None, value: float, day: int, explained: bool
) -> None:
    verdict = Verdict(
        metric="step_time_p50", outcome=Outcome.FAIL, value=value, bounds=Bounds(upper=102.0), rule="less than 102"
    )
    sentence = NodeOfRun(run_of(day, "two"), workload(day, node=node), warehouse).sentence(verdict)
    assert ("node, not change" in sentence) is explained
    assert (SLOW in sentence) is explained


def test_every_metric_has_the_sentence_and_all_of_them_the_cause(warehouse: Warehouse, tmp_path: Path) -> None:
    """Of two metrics that the node explains, both do; with a third that it does not explain, there is no cause."""
    verdicts = [verdict_of("step_time_p50", 103.0), verdict_of("step_time_copy", 103.0), verdict_of("loss", 103.0)]
    run, test = run_of(81, "two"), TestDefinition.model_validate({"name": "two", "image": "i", "command": ["c"]})
    node = NodeOfRun(run, workload(81, node=SLOW), warehouse)
    assert [SLOW in node.sentence(one) for one in verdicts] == [True, True, False]
    state = RunState(RunFolder.of(run, str(tmp_path / "runs")))
    state.folder.write_workload(workload(81, node=SLOW))
    state.folder.write("verdicts", Judgement(tuple(verdicts), (), passed=False).document())
    names = [f"out_of_bounds:{one.metric}" for one in verdicts]
    for broken, cause in ((names[:2], f"slow node, not change: {SLOW}"), (names, ""), ([*names[:2], "task:x"], "")):
        assert cause_of(test, run, state, broken, warehouse=warehouse, log_lines=0, node=node) == cause
    details = Details(run, state, {one.metric: one for one in verdicts}, warehouse, None, 0, node)
    for name in names:
        details.problem(name, "")
    assert [SLOW in text for text in details.level_changes if "node" in text] == [True, True]


def verdict_of(metric: str, value: float) -> Verdict:
    return Verdict(metric=metric, outcome=Outcome.FAIL, value=value, bounds=Bounds(upper=102.0), rule="")


def test_names_of_nodes_that_a_workload_claims(tmp_path: Path) -> None:
    """A list without the first host's node was not recorded by the cluster."""
    with open_warehouse(f"sqlite:///{tmp_path}/warehouse.db") as opened:
        claims = [{"node": f"node-{day % 2}", "nodes": "other-a,other-b"} for day in range(20)]
        opened.load_all(
            [record(day, {"step_time_p50": 100.0}, test="one", metadata=one) for day, one in enumerate(claims)]
        )
        found = nodes_found(opened, ["one"], SINCE, UNTIL)
    assert {one.name for one in found.effects} == {"node-0", "node-1"}


def test_what_a_run_records_about_its_nodes_and_hosts(tmp_path: Path) -> None:
    """The metadata of a run has the nodes of all hosts, and the host that held the others up."""
    test, run = TestDefinition.model_validate({"name": "one", "image": "i", "command": ["c"]}), run_of(1, "one")
    folder = RunFolder.of(run, str(tmp_path / "runs"))
    folder.write("run", {name: getattr(run, name) for name in Run.__dataclass_fields__})
    folder.write_workload(workload(1, node="n-0", nodes="n-0,n-1"))
    hosts = {"summary": "2 hosts", "slow_host": None, "late_host": "b"}
    folder.write("goodput", {"host_step_times": hosts, "metrics": []})
    with open_warehouse(f"sqlite:///{tmp_path}/warehouse.db") as opened:
        steps.load(test, run, RunState(folder), opened)
        found = opened.runs.metadata(run.key)
        nodes = nodes_of_runs(opened.database, ["one"], SINCE, UNTIL, 10)
    assert (found["node"], found["nodes"], found["straggler"]) == ("n-0", "n-0,n-1", "b")
    assert nodes == {run.key: ("n-0", "n-1")}
