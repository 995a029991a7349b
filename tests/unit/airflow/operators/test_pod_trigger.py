"""The triggerer resumes a task no sooner than the scheduler has read that it waits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow._shared.module_loading import import_string
from airflow.providers.cncf.kubernetes.triggers.pod import KubernetesPodTrigger
from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
from airflow.triggers.base import TriggerEvent

from ml_metrics import TestDefinition
from ml_metrics.airflow.operators import run_workload
from ml_metrics.airflow.operators.pod_trigger import LEAST_SECONDS, PodTrigger, patient
from ml_metrics.airflow.operators.run_workload import RunWorkload
from ml_metrics.airflow.versions import TaskDeferred

NOW = datetime.now(UTC)


def of_provider() -> KubernetesPodTrigger:
    return KubernetesPodTrigger(
        pod_name="p", pod_namespace="n", trigger_start_time=NOW, base_container_name="base", logging_interval=30
    )


def waits(trigger: Any) -> float:
    """Return how many seconds from now a trigger keeps its event."""
    return float(trigger.not_before - time.time())


@pytest.mark.parametrize(
    ("late", "expected"),
    [
        (timedelta(seconds=1), 5.0),
        (timedelta(seconds=12), 12.0),
        (timedelta(minutes=5), 30.0),
        (timedelta(minutes=59), 30.0),
        (timedelta(minutes=61), 5.0),
        (timedelta(days=1), 5.0),
    ],
)
def test_it_waits_as_long_as_the_scheduler_is_late_within_limits(late: timedelta, expected: float) -> None:
    assert waits(patient(of_provider(), datetime.now(UTC) - late)) == pytest.approx(expected, abs=1)


def test_the_triggerer_makes_it_again_from_what_is_stored() -> None:
    made = patient(of_provider(), NOW)
    path, options = made.serialize()
    again = import_string(path)(**options)
    assert type(again) is PodTrigger
    assert (again.serialize(), again.pod_name, again.logging_interval) == ((path, options), "p", 30)


def test_other_triggers_stay_as_they_are() -> None:
    timer = TimeDeltaTrigger(timedelta(seconds=30))
    assert patient(timer, NOW) is timer


def test_an_event_is_kept_until_it_is_time_and_the_pod_is_watched_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    async def at_once(self: KubernetesPodTrigger) -> AsyncIterator[TriggerEvent]:
        seen.append("watched")
        self._fired_event = True
        yield TriggerEvent("ended")

    async def slept(seconds: float) -> None:
        seen.append("waited" if seconds > LEAST_SECONDS - 2 else "did not wait")
        assert not trigger._fired_event, "who ends the task now removes the pod, too"

    monkeypatch.setattr(KubernetesPodTrigger, "run", at_once)
    monkeypatch.setattr(asyncio, "sleep", slept)

    async def events() -> list[TriggerEvent]:
        return [event async for event in trigger.run()]

    for due, word in ((0.0, "waited"), (60.0, "did not wait")):
        trigger: Any = patient(of_provider(), NOW)
        trigger.not_before -= due
        assert asyncio.run(events()) == [TriggerEvent("ended")]
        assert seen == ["watched", word]
        seen.clear()
        assert trigger._fired_event


@pytest.mark.parametrize(
    ("number", "reaches", "expected"),
    [(1, True, PodTrigger), (2, True, KubernetesPodTrigger), (1, False, KubernetesPodTrigger)],
)
def test_where_the_triggerer_may_not_know_it_the_provider_s_is_used(
    number: int, reaches: bool, expected: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Cloud Composer without the wheel; elsewhere a second try shows that the first may have failed of this."""
    monkeypatch.setattr(run_workload, "reaches_triggerer", lambda: reaches)
    test = TestDefinition(name="t", image="i", command=("c",))
    task: Any = RunWorkload(test=test, task_id="run_workload")
    task._ti, task.due = SimpleNamespace(try_number=number), NOW
    with pytest.raises(TaskDeferred) as deferred:
        task.defer(trigger=of_provider(), method_name="trigger_reentry")
    assert type(deferred.value.trigger) is expected
    assert deferred.value.timeout == task.max_duration
