"""The part of an operator that leaves its workload to the triggerer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import BaseOperator

from ml_metrics.extras import reaches_triggerer
from ml_metrics.operators.pod_trigger import patient

if TYPE_CHECKING:
    from datetime import datetime, timedelta


class WaitsInTriggerer(BaseOperator):
    """Defers with a limit, and with a trigger that does not overtake the scheduler."""

    max_duration: timedelta
    due: datetime | None = None
    """When the run began."""
    _ti: Any

    def defer(self, *, trigger: Any, timeout: Any = None, **options: Any) -> NoReturn:
        """Wait for a limited time only. The providers of Airflow 3.1 and 3.2 set no limit of their own.

        A second try waits as the provider does: it may be one because the triggerer cannot import this package.
        """
        if self.due is not None and self._ti.try_number == 1 and reaches_triggerer():
            trigger = patient(trigger, self.due)
        super().defer(trigger=trigger, timeout=timeout or self.max_duration, **options)
