"""The metrics for Prometheus: the newest run of each test that its user may read."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from fastapi import HTTPException

from ml_metrics.core.model import JobStatus
from ml_metrics.ui.dashboard.source import SOURCE
from ml_metrics.ui.openmetrics import openmetrics
from ml_metrics.warehouse import RunSummary, Warehouse

RECENT = timedelta(days=31)
"""A test whose newest run is older has no series."""
MOST_OF_RUN, MOST_SERIES, MOST_BYTES = 1_000, 20_000, 8 << 20
MOST_RUNS = 5_000
SECONDS, BILLED_SECONDS = 30.0, 900.0
"""How old a response may be; more if the warehouse bills each query."""
PATIENCE = 5.0
"""How long a scrape waits for another one. More of them must not hold the threads that pages need."""


@dataclass(slots=True)
class Scrapes:
    """The answers of this process: several Prometheus servers share one query of the warehouse."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _newest: list[RunSummary] = field(default_factory=list)
    _answers: dict[frozenset[str], str] = field(default_factory=dict)
    _until: float = 0.0

    def text(self, readable: Callable[[Iterable[str]], frozenset[str]]) -> str:
        """OpenMetrics about those tests whose DAGs are readable."""
        if not self._lock.acquire(timeout=PATIENCE):
            raise HTTPException(503, "Another scrape has not ended yet.")
        try:
            with SOURCE.open() as warehouse:
                return self._answer(warehouse, readable)
        finally:
            self._lock.release()

    def _answer(self, warehouse: Warehouse, readable: Callable[[Iterable[str]], frozenset[str]]) -> str:
        if time.monotonic() >= self._until:
            self.forget()
            oldest = datetime.now(UTC) - RECENT
            self._newest = [one.newest for one in warehouse.runs.tests() if one.newest.at >= oldest]
            self._until = time.monotonic() + (BILLED_SECONDS if warehouse.database.store.bills_bytes else SECONDS)
        dags = readable({run.dag_id for run in self._newest})
        runs = [run for run in self._newest if run.dag_id in dags][:MOST_RUNS]
        key = frozenset(run.run_key for run in runs)
        if key not in self._answers:
            self._answers[key] = _text(warehouse, runs)
            if len(self._answers) > 16:  # one for each set of tests that some user may read
                del self._answers[next(iter(self._answers))]
        return self._answers[key]

    def forget(self) -> None:
        self._until = 0.0
        self._answers.clear()


def _text(warehouse: Warehouse, runs: list[RunSummary]) -> str:
    ends = {run.run_key: (run.test, run.at) for run in runs}
    found = warehouse.metrics.first_of_runs(ends, most=MOST_OF_RUN, limit=MOST_SERIES)
    newest = (
        (run.test, run.at, run.job_status == JobStatus.SUCCESS, found[run.run_key].rows if run.run_key in found else ())
        for run in runs
    )
    left_out = sum(one.left_out for one in found.values())
    return openmetrics(newest, most_series=MOST_SERIES + 2 * MOST_RUNS, most_bytes=MOST_BYTES, left_out=left_out)


SCRAPES = Scrapes()
