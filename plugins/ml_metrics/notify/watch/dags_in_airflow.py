"""What Airflow knows about the DAGs of tests: whether they exist, are paused, and when they run next."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ml_metrics.config.schedule import start_of_run, time_before
from ml_metrics.extras import reaches_triggerer
from ml_metrics.warehouse.known_tests import MISSED, MISSING, PAUSED, VANISHED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ml_metrics.warehouse import KnownTest
from ml_metrics.log_lines import logger_of

log = logger_of(__name__)

SLACK = timedelta(hours=2)
"""How much later than its schedule and its longest duration allow a run may end.

A run that Airflow has created is reported by its deadline, which comes first, if the triggerer can call it.
"""
PARSED_AFTER = timedelta(hours=1)
"""After this time Airflow has parsed the DAG of a new test."""
NOT_FOUND = 404


@dataclass(frozen=True, slots=True)
class DagFacts:
    """What Airflow knows about a DAG."""

    exists: bool = True
    is_paused: bool = False
    next_run: datetime | None = None
    file: str = ""
    """Below the DAGs folder."""


def read_dags(tests: Iterable[KnownTest], get_dag: Callable[[str], Any]) -> dict[str, DagFacts]:
    """Return the facts about the DAGs of tests with a schedule, and of those whose DAG file is unknown.

    `get_dag` is that of a task instance. If it fails, nothing is known about the DAGs that are left.
    """
    found: dict[str, DagFacts] = {}
    for test in tests:
        if not test.schedule and test.dag_file:
            continue
        try:
            dag = get_dag(test.test)
        except Exception as error:  # noqa: BLE001  (Airflow's errors have no common family)
            if _status(error) != NOT_FOUND:
                log.warning("Airflow does not state which DAGs are paused: %s: %s", type(error).__name__, error)
                return found
            found[test.test] = DagFacts(exists=False)
        else:
            next_run = dag.next_dagrun and start_of_run(test.schedule, dag.next_dagrun)
            found[test.test] = DagFacts(is_paused=dag.is_paused, next_run=next_run, file=dag.relative_fileloc or "")
    return found


def problems_of_dag(
    test: KnownTest, facts: DagFacts | None, last_run: datetime | None, now: datetime, dags_folder: Path | None = None
) -> dict[str, str]:
    """Return the problems of the DAG of a defined test: sentences, by the names of the problems."""
    if test.in_python and _is_gone(test.file, dags_folder):
        return {VANISHED: f"{test.file} does not exist any more. It defined this test as a DAG in Python."}
    if not test.schedule:
        return {}
    since = datetime.fromtimestamp(test.since, now.tzinfo)
    if facts is not None and not facts.exists:
        sentence = "Airflow has no DAG of it: see the import errors on Airflow's Dags page and the DAG processor's log."
        return {MISSING: sentence} if now - since > PARSED_AFTER else {}
    if facts is not None and facts.is_paused:
        return {PAUSED: f"Its DAG is paused: no run of the schedule {test.schedule!r} starts until it is unpaused."}
    return _missed(test, facts, last_run, now)


def latest_expected(test: KnownTest, now: datetime) -> datetime | None:
    """Return the newest time of a test's schedule whose run must have ended by now; None if there is none yet."""
    expected = time_before(test.schedule, now - timedelta(seconds=test.longest) - SLACK)
    return expected if expected is not None and expected.timestamp() >= test.since else None


def _missed(test: KnownTest, facts: DagFacts | None, last_run: datetime | None, now: datetime) -> dict[str, str]:
    expected = latest_expected(test, now)
    if expected is None or (last_run is not None and last_run >= expected):
        return {}
    if facts is not None and facts.next_run is not None:
        if facts.next_run > now and (reaches_triggerer() or not test.recorded):
            return {}  # Airflow has created the run, and the run's deadline and its gate report how it ends
    elif not test.recorded:
        return {}
    sentence = f"No run of the schedule {test.schedule!r} has ended since {expected:%Y-%m-%d %H:%M} UTC, its last time."
    return {MISSED: sentence}


def _is_gone(file: str, dags_folder: Path | None) -> bool:
    """Whether a DAG file was deleted. A file outside the DAGs folder may be in a bundle that this process has not."""
    if dags_folder is None or not file or not dags_folder.is_dir():
        return False
    return Path(file).is_relative_to(dags_folder) and not Path(file).exists()


def _status(error: Exception) -> int:
    """Return the HTTP status with which Airflow's API server rejected a request; 0 if there was none."""
    detail = getattr(getattr(error, "error", None), "detail", None)
    return int(detail.get("status_code") or 0) if isinstance(detail, dict) else 0
