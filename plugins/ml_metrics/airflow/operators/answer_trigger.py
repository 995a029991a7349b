"""The provider's trigger for answers of people, delayed until the scheduler knows that its task waits.

Airflow retries a task whose answer comes at the moment when the task begins to wait (`pod_trigger.py` says why). The
next try finds the answer, and must not be resumed as early again.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.triggers.hitl import HITLTrigger

from ml_metrics.airflow.versions import checked

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from airflow.triggers.base import TriggerEvent


@checked
class AnswerTrigger(HITLTrigger):
    """Looks for an answer from a time on."""

    def __init__(self, *, not_before: float, **options: Any) -> None:
        super().__init__(**options)
        self.not_before = not_before
        """In seconds since 1970."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        _, options = super().serialize()
        return f"{AnswerTrigger.__module__}.{AnswerTrigger.__qualname__}", {**options, "not_before": self.not_before}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        await asyncio.sleep(max(0.0, self.not_before - time.time()))
        async for event in super().run():
            yield event
