"""Causes: what has to be the same so that two failures are reported together."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics import TestDefinition
from ml_metrics.alerts.causes import cause_of, specific_error
from ml_metrics.core.model import JobStatus, Run, Workload
from ml_metrics.pipeline import RunState
from ml_metrics.store.run_folder import RunFolder

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
