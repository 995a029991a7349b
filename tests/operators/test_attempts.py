from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ml_metrics.operators.attempts import retries_left, start_attempt
from ml_metrics.run_folder import RunFolder


def task(max_tries: int) -> Any:
    return SimpleNamespace(max_tries=max_tries)


def test_a_workload_is_started_as_often_as_was_asked_for(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path))
    first = start_attempt(folder, task(4), "img")
    assert retries_left(folder, first, 1)
    second = start_attempt(folder, task(4), "img")
    assert (first.attempts, second.attempts) == (1, 2)
    assert not retries_left(folder, second, 1)


def test_a_person_who_clears_the_task_grants_the_retries_anew(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path))
    start_attempt(folder, task(4), "img")
    start_attempt(folder, task(4), "img")
    third = start_attempt(folder, task(7), "img")
    assert third.attempts == 3
    assert retries_left(folder, third, 1)


def test_without_retries_one_attempt_is_all(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path))
    assert not retries_left(folder, start_attempt(folder, task(3), "img"), 0)
