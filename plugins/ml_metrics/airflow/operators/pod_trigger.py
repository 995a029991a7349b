"""The provider's trigger for pods, delayed until the scheduler can know that its task waits.

When a task defers, its process ends, and the executor tells the scheduler so. If the trigger fires before the scheduler
has read that, Airflow 3.3 starts the task again and then takes the end of the first process for that of the second:
the task counts as lost, and is tried again. This happens to pods that end within seconds, if the scheduler is late.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from airflow.providers.cncf.kubernetes.triggers.pod import KubernetesPodTrigger

from ml_metrics.airflow.versions import check_attributes, checked

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from datetime import datetime

    from airflow.triggers.base import BaseTrigger, TriggerEvent


LEAST_SECONDS, MOST_SECONDS = 5.0, 30.0
"""A loop of a scheduler that has nothing to do takes a second. Airflow calls one unhealthy that takes 30."""


NOT_THE_SCHEDULER = 3600.0
"""A run that started longer ago has the date of another day, as in `airflow dags test DAG DATE`."""


@checked
class PodTrigger(KubernetesPodTrigger):
    """Watches a pod, and fires at a time or later."""

    def __init__(self, *, not_before: float, **options: Any) -> None:
        super().__init__(**options)
        if "cleanup" in vars(KubernetesPodTrigger):  # cncf-kubernetes 10.14 has none: its triggers end no pod
            check_attributes(self)  # without it, the pod of a task that is ended meanwhile would go on
        self.not_before = not_before
        """In seconds since 1970."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        _, options = super().serialize()
        return f"{PodTrigger.__module__}.{PodTrigger.__qualname__}", {**options, "not_before": self.not_before}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        async for event in super().run():
            self._fired_event = False  # a user who ends the task meanwhile ends the pod, too
            await asyncio.sleep(max(0.0, self.not_before - time.time()))
            self._fired_event = True
            yield event


def patient(trigger: BaseTrigger, due: datetime) -> BaseTrigger:
    """Return a trigger for pods that lets the scheduler catch up. Another trigger is returned as it is.

    `due` is when the run began: the scheduler has taken so long to start this task, or less.
    """
    if type(trigger) is not KubernetesPodTrigger:
        return trigger
    now = time.time()
    late = now - due.timestamp()
    seconds = LEAST_SECONDS if late > NOT_THE_SCHEDULER else min(MOST_SECONDS, max(LEAST_SECONDS, late))
    return PodTrigger(not_before=now + seconds, **trigger.serialize()[1])
