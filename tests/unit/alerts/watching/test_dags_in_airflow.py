"""DAGs that are paused, missing, or do not run as scheduled."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from ml_metrics.core import extras
from ml_metrics.warehouse import KnownTest
from unit.alerts.watching.observed import Observed

DAY = timedelta(days=1)


def test_a_dag_that_is_paused_and_unpaused(observed: Observed) -> None:
    observed.write("nightly")
    observed.write("by-hand", schedule=None)
    observed.passes()
    observed.paused = {"nightly", "by-hand"}
    observed.passes()
    assert observed.subjects == ["nightly was paused"]
    assert observed.incident("nightly") == ("dag:paused",)
    observed.passes(3 * DAY)
    assert observed.messages == []
    observed.paused = set()
    observed.passes()
    assert observed.subjects == ["nightly works again (was: its DAG is paused)"]
    observed.passes()
    assert observed.messages == [], "the runs that it missed while it was paused are no news"


def test_a_new_dag_is_paused_until_somebody_starts_it(observed: Observed) -> None:
    observed.passes()
    observed.write("nightly")
    observed.missing = {"nightly"}
    observed.passes()
    observed.missing, observed.paused = set(), {"nightly"}
    observed.passes()
    observed.passes(5 * DAY)
    assert observed.messages == []
    observed.paused = set()
    observed.passes()
    observed.paused = {"nightly"}
    observed.passes()
    assert observed.subjects == ["nightly was paused"]


def test_an_airflow_that_gives_no_answer_changes_nothing(observed: Observed) -> None:
    observed.write("nightly")
    observed.passes()
    observed.paused = {"nightly"}
    observed.passes()
    observed.has_airflow = False
    observed.passes()
    assert observed.messages == []
    observed.has_airflow = True
    observed.passes()
    assert observed.messages == []


def test_a_dag_that_airflow_does_not_have(observed: Observed) -> None:
    observed.write("nightly")
    observed.passes()
    observed.missing = {"nightly"}
    observed.passes()
    assert observed.messages == []
    observed.passes(timedelta(hours=1))
    assert observed.subjects == ["nightly does not run: Airflow has no DAG of it"]


def test_a_test_that_did_not_run_as_scheduled(observed: Observed) -> None:
    observed.write("nightly")
    observed.passes()
    observed.passes(timedelta(hours=12))
    observed.ran("nightly", observed.now.replace(hour=4) + DAY)
    for _ in range(4):
        observed.passes(timedelta(hours=6))
        assert observed.messages == []
    observed.ran("nightly", observed.now, "manual__")
    observed.passes(timedelta(hours=10))
    observed.passes(timedelta(hours=10))
    assert observed.subjects == ["nightly did not run as scheduled"]
    text = " ".join(observed.messages[0].text.split())
    assert "No run of the schedule '0 3 * * *' has ended since 2026-01-21 03:00 UTC" in text
    observed.ran("nightly", observed.now)
    observed.passes()
    assert observed.subjects == ["nightly works again (was: it did not run as scheduled)"]


def test_a_run_is_missed_two_hours_after_the_longest_run(observed: Observed) -> None:
    observed.write("nightly", timeout="1h", startup_timeout="20m")
    observed.passes()
    longest = timedelta(hours=2, minutes=15)  # twice the startup timeout, the timeout, an outage and delays of retries
    latest = datetime(2026, 1, 20, 3, tzinfo=UTC) + longest + timedelta(hours=2)
    observed.passes(latest - observed.now)
    assert observed.messages == []
    observed.passes(timedelta(seconds=1))
    assert observed.subjects == ["nightly did not run as scheduled"]


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo", "Pacific/Kiritimati"])
def test_runs_are_expected_in_the_zone_of_airflow(
    observed: Observed, monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__DEFAULT_TIMEZONE", zone)
    observed.write("nightly")
    observed.passes()
    times = [datetime(2026, 1, day, 3, tzinfo=ZoneInfo(zone)) for day in range(19, 23)]
    for started in (time for time in times if time > observed.now):
        while observed.now + timedelta(hours=1) < started:
            observed.passes(timedelta(hours=1))
            assert observed.messages == []
        observed.ran("nightly", started + timedelta(minutes=10))
    observed.passes(2 * DAY)
    assert observed.subjects == ["nightly did not run as scheduled"]


def test_the_next_run_of_a_schedule_with_data_intervals_starts_after_its_interval(
    observed: Observed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__SCHEDULER__CREATE_CRON_DATA_INTERVALS", "True")
    observed.write("nightly")
    observed.passes()
    observed.now += 3 * DAY
    observed.next_run = observed.now.replace(hour=3, minute=0)  # Airflow's next logical date
    observed.passes()
    assert observed.messages == [], "Airflow has created the run of this morning, whose deadline reports how it ends"
    observed.next_run -= DAY
    observed.passes()
    assert observed.subjects == ["nightly did not run as scheduled"]


def test_without_deadlines_a_run_that_never_ends_is_reported_all_the_same(
    observed: Observed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Cloud Composer without the wheel, the triggerer cannot import the callback of the deadline."""
    monkeypatch.setenv("COMPOSER_ENVIRONMENT", "nightly")
    monkeypatch.setattr(extras, "distributions", lambda name: iter(()))
    observed.write("nightly")
    observed.passes()
    observed.next_run = observed.now + 30 * DAY
    observed.passes(3 * DAY)
    assert observed.subjects == ["nightly did not run as scheduled"]


@pytest.mark.parametrize("schedule", [None, "@once", "@continuous", "0 0 30 2 *", "@yearly"])
def test_a_schedule_without_a_time_misses_none(observed: Observed, schedule: str | None) -> None:
    observed.write("nightly", schedule=schedule)
    observed.passes()
    observed.passes(100 * DAY)
    assert observed.messages == []


def test_a_test_that_records_nothing_is_judged_by_airflow_alone(observed: Observed) -> None:
    observed.write("nightly", metric_collection_config={"write_to_bigquery": False})
    observed.passes()
    observed.passes(3 * DAY)
    assert observed.messages == []
    observed.next_run = observed.now - DAY
    observed.passes()
    assert observed.subjects == ["nightly did not run as scheduled"]


def test_a_dag_in_python_whose_file_was_deleted(observed: Observed) -> None:
    file = observed.folder / "dags" / "mine.py"
    file.parent.mkdir()
    file.write_text("dag = 1")
    known = KnownTest("mine", file=str(file), in_python=True, fingerprint="f", schedule="0 3 * * *")
    observed.warehouse.known_tests.register(known)
    observed.passes()
    observed.passes()
    assert observed.messages == []
    file.unlink()
    observed.passes()
    assert observed.subjects == ["mine vanished: no file defines it any more"]
    assert observed.messages[0].recipients == ("duty@example.com",)
    observed.warehouse.incidents.acknowledge("definition:mine", by="a new user")
    observed.passes()
    observed.passes()
    assert observed.messages == []
    assert observed.warehouse.known_tests.read().tests == {}


def test_without_the_folder_of_dags_none_of_its_files_has_vanished(observed: Observed) -> None:
    """This process may not see the folder that the DAG processor reads."""
    known = KnownTest("mine", file=str(observed.folder / "dags" / "mine.py"), in_python=True, fingerprint="f")
    observed.warehouse.known_tests.register(known)
    observed.passes()
    observed.passes()
    assert observed.messages == []
    (observed.folder / "dags").mkdir()
    observed.passes()
    assert observed.subjects == ["mine vanished: no file defines it any more"]
