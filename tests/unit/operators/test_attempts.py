from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ml_metrics.model import JobStatus, Workload
from ml_metrics.operators.attempts import end_of_round, mark_attempt_created, retries_left, start_attempt
from ml_metrics.run_folder import RunFolder


def begin(folder: RunFolder, max_tries: int) -> Workload:
    """An attempt whose pod the cluster accepted."""
    pending = start_attempt(folder, task(max_tries), "img")
    mark_attempt_created(folder, pending)
    return pending


def task(max_tries: int) -> Any:
    return SimpleNamespace(max_tries=max_tries)


def test_a_workload_is_started_as_often_as_configured(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path))
    first = begin(folder, 4)
    assert retries_left(folder, first, 1)
    second = begin(folder, 4)
    assert (first.attempts, second.attempts) == (1, 2)
    assert not retries_left(folder, second, 1)


def test_clearing_the_task_grants_all_retries_again(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path))
    begin(folder, 4)
    begin(folder, 4)
    third = begin(folder, 7)
    assert third.attempts == 3
    assert retries_left(folder, third, 1)


def test_without_retries_there_is_one_attempt(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path))
    assert not retries_left(folder, begin(folder, 3), 0)


def test_an_attempt_that_was_never_created_is_not_counted(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path))
    assert [start_attempt(folder, task(3), "img").attempts for _ in range(3)] == [1, 1, 1]
    assert start_attempt(folder, task(6), "img").attempts == 2, "a person cleared the task"


@pytest.mark.parametrize(
    ("status", "reason", "retries", "is_final"),
    [
        (JobStatus.SUCCESS, None, 1, True),
        (JobStatus.FAILURE, "OOMKilled", 0, True),
        (JobStatus.FAILURE, "OOMKilled", 1, False),
        (JobStatus.FAILURE, "WorkerLost", 0, False),
        (JobStatus.FAILURE, "ClusterUnreachable", 0, False),
        (JobStatus.MISSED, "ClusterUnreachable", 0, True),
    ],
)
def test_a_recorded_end_is_final(
    tmp_path: Path, status: JobStatus, reason: str | None, retries: int, is_final: bool
) -> None:
    folder = RunFolder(str(tmp_path))
    pending = begin(folder, 3)
    folder.write_workload(replace(pending, status=status, failure_reason=reason))
    assert (end_of_round(folder, task(3), retries) is not None) is is_final
    assert end_of_round(folder, task(6), retries) is None, "a person cleared the task"
