from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any

import pytest

from ml_metrics import TestDefinition
from ml_metrics.airflow import load_mail_settings, warehouse
from ml_metrics.alerts import send_heartbeats
from ml_metrics.alerts.heartbeat import times_between
from ml_metrics.core.model import JobStatus, Metric, Outcome, Run, Verdict, Workload
from ml_metrics.core.settings import Settings
from ml_metrics.core.values import end_of_day
from ml_metrics.warehouse import ChannelResult, KnownTest, StoredMessage, run_record
from ml_metrics.warehouse.sql import SqlStore

NOW = datetime(2026, 1, 19, 7, tzinfo=UTC)  # a Monday


def a_test(name: str, schedule: str | None, **more: Any) -> TestDefinition:
    return TestDefinition(name=name, image="i", command=("c",), schedule=schedule, **more)


def ran(
    test: str,
    times: list[datetime],
    run_id: str = "scheduled__",
    outcomes: dict[str, Outcome] | None = None,
    value: float = 1.0,
) -> None:
    metrics = [Metric(name, value, tag=name, strategy="final") for name in outcomes or {}]
    verdicts = [Verdict(name, outcome, value, None, "a rule") for name, outcome in (outcomes or {}).items()]
    with warehouse() as open_warehouse:
        for ended in times:
            run, workload = Run(test, test, f"{run_id}{ended}", "local"), Workload(JobStatus.SUCCESS, ended_at=ended)
            about = {"test_type": "", "accelerator": "", "framework_version": ""}
            record = run_record(run, workload, metrics, verdicts, {}, **about)
            open_warehouse.load(record)


def days(count: int, before: datetime = NOW) -> list[datetime]:
    return [before - timedelta(days=day, hours=3) for day in range(count)]


def mails() -> dict[str, str]:
    """Return the plain texts in the outbox by recipients."""
    found = {}
    for path in Path(Settings.load().outbox).glob("*.eml"):
        mail = message_from_bytes(path.read_bytes(), policy=policy.default)
        body = mail.get_body(("plain",))
        assert body is not None
        found[str(mail["To"])] = f"{mail['Subject']}\n{body.get_content()}"
    return found


def send(*tests: TestDefinition, watched: dict[str, KnownTest] | None = None) -> int:
    with warehouse() as open_warehouse:
        return send_heartbeats(tests, open_warehouse, load_mail_settings(), NOW, watched)


def test_a_test_that_missed_runs_is_listed_with_their_number() -> None:
    ran("daily", days(20))
    ran("slept", days(20)[3:])
    ran("by-hand", days(1), "manual__")
    assert send(
        a_test("daily", "0 3 * * *"),
        a_test("slept", "0 3 * * *"),
        a_test("never", "@daily"),
        a_test("by-hand", None),
        a_test("weekly", "0 3 * * 6"),
    )
    (text,) = mails().values()
    assert "2 of 5 tests did not run as scheduled" not in text
    assert "3 of 5 tests did not run as scheduled" in text
    assert "* slept: ran 4 of 7 times, last at 2026-01-16 04:00 UTC" in text
    assert "* never: ran 0 of 7 times, never ran before" in text
    assert "* weekly: ran 0 of 1 times, never ran before" in text
    assert "daily:" not in text
    assert "by-hand:" not in text


def test_messages_that_could_not_be_sent_are_listed() -> None:
    emails = ("a@example.com",)
    about = {"run_key": "r", "test": "one", "owner": "o", "occasion": "broken", "content_hash": "h", "reasons": ()}
    channels = {"smtp": ChannelResult("dead", 9, "mail.example took too long"), "outbox": ChannelResult("delivered")}
    row = StoredMessage("m", subject="[ML Metrics] one failed", recipients=emails, timestamp=NOW, **about)
    with warehouse() as open_warehouse:
        open_warehouse.messages.add(replace(row, state="dead", channels=channels))
        open_warehouse.messages.add(replace(row, message="old", state="dead", timestamp=NOW - timedelta(days=13)))
        given_up = "UPDATE messages SET next_attempt = :at WHERE message = 'old'"
        open_warehouse.database.change(given_up, at=NOW - timedelta(days=8))
        late = replace(row, message="late", subject="it was given up this week", timestamp=NOW - timedelta(days=11))
        open_warehouse.messages.add(replace(late, state="dead", channels=channels))
        open_warehouse.messages.add(replace(row, message="other", state="dead", recipients=("b@example.com",)))
    send(a_test("one", None, emails=emails))
    (text,) = mails().values()
    assert "2 messages could not be sent" in text
    assert "* it was given up this week, 2026-01-08 07:00 UTC" in text
    assert "* [ML Metrics] one failed, 2026-01-19 07:00 UTC: smtp: mail.example took too long" in text


def test_a_heartbeat_that_is_sent_again_is_one_message() -> None:
    send(a_test("one", "@daily"))
    send(a_test("one", "@daily"))
    with warehouse() as open_warehouse:
        assert len(open_warehouse.messages.since(NOW)) == 1


def test_each_list_of_recipients_gets_its_own_tests() -> None:
    assert (
        send(
            a_test("one", "@daily", emails=("a@example.com",)),
            a_test("two", "@daily", emails=("b@example.com",)),
            a_test("three", None, emails=("b@example.com",)),
        )
        == 2
    )
    texts = mails()
    assert "1 of 1 test did not run" in texts["a@example.com"]
    assert "1 of 2 tests did not run" in texts["b@example.com"]
    assert "two" not in texts["a@example.com"]


def test_a_heartbeat_without_missed_runs_lists_incidents_and_quarantines() -> None:
    ran("fine", days(20))
    with warehouse() as open_warehouse:
        about = {"reasons": ["out_of_bounds:loss"], "cost": "8.96 USD a week: 60 s more"}
        open_warehouse.incidents.report("fine", "run 1", fingerprint="f", at=NOW, **about)
        open_warehouse.incidents.acknowledge("fine", by="a new user")
    quarantine = {"until": "2026-02-01", "reason": "the data set moves"}
    send(a_test("fine", "0 3 * * *", quarantine=quarantine))
    (text,) = mails().values()
    assert text.startswith("[ML Metrics] weekly: 1 of 1 test is failing\n")
    assert "Of 1 test, 1 ran as scheduled. Of all, 1 is failing, 1 is in quarantine." in text
    failing = (
        "* fine since 2026-01-19 07:00 UTC: loss out of bounds (acknowledged by a new user, costs 8.96 USD a week)"
    )
    assert failing in text
    assert "* fine until 2026-02-01: the data set moves" in text


@pytest.mark.parametrize("until", ["2026-01-31", "9998-12-31"])
def test_a_quarantine_of_a_person_is_reported_with_its_last_day(until: str) -> None:
    with warehouse() as opened:
        opened.quarantines.set("one", until=end_of_day(date.fromisoformat(until)), reason="moves", by="a new user")
    send(a_test("one", "@daily"))
    (text,) = mails().values()
    assert f"* one until {until}: moves (a new user)" in text


def test_a_metric_that_is_never_judged_is_listed() -> None:
    ran("daily", days(24)[2:], outcomes={"loss": Outcome.INSUFFICIENT_DATA, "time": Outcome.INSUFFICIENT_DATA})
    ran("daily", days(2), "later__", {"loss": Outcome.INSUFFICIENT_DATA, "time": Outcome.PASS})
    rule = {"comparison": "less", "success_threshold": {"mads_from_median": 5}, "compare_to": "dialy"}
    send(a_test("daily", "0 3 * * *", regression_test_config={"metric_success_conditions": {"default": rule}}))
    (text,) = mails().values()
    assert text.startswith("[ML Metrics] weekly: 1 test ran as scheduled, 1 metric was not judged\n")
    assert "* daily: loss: insufficient data in the last 24 runs: mads_from_median needs 2 earlier runs" in text
    assert "time had" not in text


def test_a_condition_that_is_narrower_than_its_noise_is_listed() -> None:
    for number, ended in enumerate(days(60)):
        ran("daily", [ended], outcomes={"loss": Outcome.PASS}, value=100 + number * 37 % 11)
    rule = {"comparison": "less", "success_threshold": {"stddevs_from_mean": 0.2}}
    send(a_test("daily", "0 3 * * *", regression_test_config={"metric_success_conditions": {"loss": rule}}))
    (text,) = mails().values()
    assert "Conditions that do not fit their past runs:\n* daily: loss fails " in text.replace("\r", "")
    assert "is smaller than the noise" in text


def test_a_test_that_records_nothing_is_not_listed() -> None:
    send(a_test("unrecorded", "@daily", metric_collection_config={"write_to_bigquery": False}))
    (text,) = mails().values()
    assert "none of 1 test was scheduled" in text
    assert "Of 1 test, 1 records no runs. Of all, none is failing." in text


def test_the_headline_states_the_worst_and_every_test_is_counted_once() -> None:
    """Three fail, one is in quarantine, one has no schedule, one is paused, one broke, one member never ran."""
    for name in ("fails-1", "fails-2", "fails-3", "quiet", "python", "slept"):
        ran(name, days(20)[4 if name == "slept" else 0 :])
    with warehouse() as opened:
        for name in ("fails-1", "fails-2", "fails-3"):
            opened.incidents.report(name, f"run of {name}", fingerprint="f", reasons=["out_of_bounds:loss"], at=NOW)
        opened.quarantines.set("quiet", until=NOW + timedelta(days=1), reason="moves", by="a new user")
    week_ago = (NOW - timedelta(days=30)).timestamp()
    known = {
        "python": KnownTest("python", in_python=True, schedule="0 3 * * *", longest=4800, since=week_ago),
        "paused": KnownTest("paused", schedule="0 3 * * *", problems={"dag:paused": "It is paused."}),
        "broken": KnownTest("broken", schedule="0 3 * * *", problems={"file:unreadable": "broken.yaml:4: x"}),
    }
    tests = [a_test(name, "0 3 * * *") for name in ("fails-1", "fails-2", "fails-3", "quiet", "slept", "sweep-lr-1")]
    send(*tests, a_test("by-hand", None), watched=known)
    (text,) = mails().values()
    assert text.startswith(
        "[ML Metrics] weekly: 1 of 10 tests cannot run, 2 did not run as scheduled, 3 are failing, 1 is paused\n"
    )
    assert (
        "Of 10 tests, 5 ran as scheduled, 1 ran less often, 1 never ran, 1 is paused, 1 cannot run, 1 has no schedule. "
        "Of all, 3 are failing, 1 is in quarantine." in " ".join(text.split())
    )
    assert "* broken: its file cannot be read: broken.yaml:4: x" in text
    assert "* quiet until 2026-01-20: moves (a new user)" in text


def test_a_new_test_is_not_expected_before_its_first_run() -> None:
    ran("new", days(2))
    send(a_test("new", "0 3 * * *"))
    (text,) = mails().values()
    assert "1 test ran as scheduled" in text


@pytest.mark.parametrize(("missing", "shown"), [(0, "1 test ran as scheduled"), (1, "ran 19 of 20 times")])
def test_runs_are_expected_from_the_one_that_ran_first(missing: int, shown: str) -> None:
    ended = [NOW - timedelta(hours=hours, minutes=30) for hours in range(20)]
    ran("new", ended[: 10 - missing] + ended[10:])
    send(a_test("new", "@hourly", startup_timeout="1m", timeout="1m"))
    (text,) = mails().values()
    assert shown in text


@pytest.mark.parametrize(
    ("schedule", "times"),
    [
        ("0 3 * * *", 7),
        ("@hourly", 168),
        ("@weekly", 1),
        ("@once", 0),
        ("@continuous", 0),
        (None, 0),
        ("0 0 30 2 *", 0),
    ],
)
def test_the_number_of_runs_of_a_schedule(schedule: str | None, times: int) -> None:
    assert times_between(schedule, NOW - timedelta(days=7), NOW) == times
    assert times_between(schedule, NOW, NOW - timedelta(days=7)) == 0


def test_many_tests_are_read_with_few_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = {"comparison": "less", "success_threshold": {"fixed_value": 5}}
    names = [f"t{number:02}" for number in range(25)]
    for name in names:
        ran(name, days(2), outcomes={"loss": Outcome.PASS})
    asked: list[str] = []
    rows, stream = SqlStore.rows, SqlStore.stream

    def count(query: str) -> None:
        asked.extend(["history"] * ("metric_history" in query))

    monkeypatch.setattr(SqlStore, "rows", lambda store, query, more: count(query) or rows(store, query, more))
    monkeypatch.setattr(SqlStore, "stream", lambda store, query, more: count(query) or stream(store, query, more))
    config = {"metric_success_conditions": {"loss": rule}}
    assert send(*(a_test(name, "0 3 * * *", regression_test_config=config) for name in names)) == 1
    assert len(asked) == 2, "of twenty tests at a time"
