"""The DAGs of the package itself: without them, messages wait, so they run as soon as Airflow finds them."""

from __future__ import annotations

import runpy
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ml_metrics import TestDefinition, accelerator_test
from ml_metrics.airflow.callbacks import send_messages
from ml_metrics.alerts.outbox.sender import CHANNEL_SECONDS, PASS_SECONDS
from ml_metrics.core.model import Run
from ml_metrics.warehouse import HOLD_OFF, SenderPass
from stored_dags import stored_timetable

DAGS = Path(__file__).parents[3] / "dags"


def dags_of(file: str) -> dict[str, Any]:
    from airflow.sdk import DAG

    return {one.dag_id: one for one in runpy.run_path(str(DAGS / file)).values() if isinstance(one, DAG)}


@pytest.mark.parametrize(
    ("file", "names"),
    [
        ("ml_messages.py", {"ml_messages"}),
        (
            "ml_digest.py",
            {
                "ml-metrics-digest",
                "ml-metrics-doctor",
                "ml-metrics-heartbeat",
                "ml-metrics-storage",
                "ml-metrics-watch",
            },
        ),
    ],
)
def test_they_are_not_paused_when_they_first_appear(file: str, names: set[str]) -> None:
    found = dags_of(file)
    assert names <= set(found)
    for dag in found.values():
        assert dag.is_paused_upon_creation is False
        assert (dag.catchup, dag.max_active_runs) == (False, 1)


@pytest.mark.parametrize("hour", [7, 9, 23])
def test_an_airflow_that_starts_on_a_monday_sends_its_first_heartbeat_a_week_later(
    hour: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only then is there a week to report."""
    from airflow.timetables.base import TimeRestriction

    timetable = stored_timetable(dags_of("ml_digest.py")["ml-metrics-heartbeat"].timetable)
    monkeypatch.setattr("airflow.timetables.trigger.utcnow", lambda: datetime(2026, 1, 19, hour, 30, tzinfo=UTC))
    first = timetable.next_dagrun_info(
        last_automated_data_interval=None, restriction=TimeRestriction(earliest=None, latest=None, catchup=False)
    )
    assert first is not None
    assert first.run_after == datetime(2026, 1, 26, 7, tzinfo=UTC)


def test_a_pass_ends_before_the_next_begins() -> None:
    (dag,) = dags_of("ml_messages.py").values()
    (task,) = dag.tasks
    assert dag.schedule == timedelta(minutes=5)
    assert PASS_SECONDS + CHANNEL_SECONDS < task.execution_timeout.total_seconds() < dag.dagrun_timeout.total_seconds()
    assert dag.dagrun_timeout < timedelta(minutes=5)
    assert task.retries == 0
    assert HOLD_OFF.total_seconds() < PASS_SECONDS


@pytest.mark.parametrize(("answer", "ended"), [("RUNNING", False), ("FAILED", True), ("SUCCESS", True), (None, None)])
def test_the_sender_asks_airflow_whether_a_run_has_ended(
    answer: str | None, ended: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.sdk.api.datamodels._generated import DagRunState

    def state(dag_id: str, run_id: str) -> str:
        assert (dag_id, run_id) == ("d", "r")
        if answer is None:
            raise RuntimeError("404: the run was deleted")
        return DagRunState[answer]  # what a task really gets: its text is not its value

    asked = []

    def passed(*_: Any, has_ended: Any, **__: Any) -> SenderPass:
        asked.append(has_ended(Run("t", "d", "r", "local")))
        return SenderPass("s", datetime.now(UTC), 0, 0)

    context = {"ti": SimpleNamespace(get_dagrun_state=state)}
    monkeypatch.setattr("airflow.sdk.get_current_context", lambda: context)
    monkeypatch.setattr("ml_metrics.alerts.outbox.sender.send_pending", passed)
    assert send_messages() == "0 sent, 0 pending"
    assert asked == [ended]


@pytest.mark.parametrize(("file", "dag"), [("ml_messages.py", "ml_messages"), ("ml_digest.py", "ml-metrics-watch")])
def test_messages_do_not_wait_for_the_tasks_of_tests(file: str, dag: str) -> None:
    gate = accelerator_test(TestDefinition(name="t", image="i", command=("c",))).get_task("assert_success")
    (task,) = dags_of(file)[dag].tasks
    assert (task.weight_rule, gate.weight_rule) == ("absolute", "absolute")
    assert task.priority_weight > gate.priority_weight
