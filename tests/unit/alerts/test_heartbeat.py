from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from golden import check
from ml_metrics import TestDefinition
from ml_metrics.airflow import load_mail_settings, warehouse
from ml_metrics.alerts import heartbeat, send_heartbeats
from ml_metrics.alerts.compose import MAX_ROWS
from ml_metrics.alerts.digest import runs_of, silent_in
from ml_metrics.alerts.heartbeat import (
    SECTIONS,
    Heartbeat,
    Line,
    compose_heartbeat,
    counts_of,
    findings,
    headline_of,
    newest,
)
from ml_metrics.core.model import JobStatus, Metric, Outcome, Run, Verdict, Workload
from ml_metrics.core.values import end_of_day
from ml_metrics.judge import HistoryNeeds, history_needs, misfits
from ml_metrics.warehouse import ChannelResult, KnownTest, StoredMessage, run_record
from ml_metrics.warehouse.sql import SqlStore
from unit.alerts.mailbox import mails, text_of
from unit.alerts.samples import HEARTBEAT

NOW = datetime(2026, 1, 19, 7, tzinfo=UTC)  # a Monday


def a_test(name: str, schedule: str | None, **more: Any) -> TestDefinition:
    return TestDefinition(name=name, image="i", command=("c",), schedule=schedule, **more)


def ran(
    test: str,
    times: list[datetime],
    outcomes: dict[str, Outcome] | None = None,
    *,
    by_hand: bool = False,
    value: float = 1.0,
    noise: float = 0.0,
    deployment: str = "local",
) -> None:
    with warehouse() as opened:
        there = opened.in_deployment(deployment)
        for number, ended in enumerate(times):
            run = Run(test, test, f"{'manual__' if by_hand else 'scheduled__'}{ended}", deployment)
            measured = value + noise * (number % 7)
            metrics = [Metric(name, measured, tag=name, strategy="final") for name in outcomes or {}]
            verdicts = [Verdict(name, one, measured, None, "a rule") for name, one in (outcomes or {}).items()]
            there.load(run_record(run, Workload(JobStatus.SUCCESS, ended_at=ended), metrics, verdicts, {}))


def days(count: int, before: datetime = NOW) -> list[datetime]:
    return [before - timedelta(days=day, hours=3) for day in range(count)]


def send(*tests: TestDefinition, watched: dict[str, KnownTest] | None = None) -> str:
    """Send the heartbeat to the only list of recipients, and return its subject and plain text."""
    with warehouse() as open_warehouse:
        assert send_heartbeats(tests, open_warehouse, load_mail_settings(), NOW, watched) == 1
    (mail,) = mails()
    body = mail.get_body(("plain",))
    assert body is not None
    return f"{mail['Subject']}\n{body.get_content()}"


def test_a_test_that_missed_runs_is_listed_with_their_number() -> None:
    ran("daily", days(20))
    ran("slept", days(20)[3:])
    ran("by-hand", days(1), by_hand=True)
    text = send(
        a_test("daily", "0 3 * * *"),
        a_test("slept", "0 3 * * *"),
        a_test("never", "@daily"),
        a_test("by-hand", None),
        a_test("weekly", "0 3 * * 6"),
        a_test("unrecorded", "@daily", metric_collection_config={"write_to_bigquery": False}),
    )
    assert "2 of 6 tests did not run as scheduled" not in text
    assert "3 of 6 tests did not run as scheduled" in text
    assert "1 records no runs" in text
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
    text = send(a_test("one", None, emails=emails))
    assert "2 messages could not be sent" in text
    assert "* it was given up this week: not sent: smtp: mail.example took too long (2026-01-08 07:00 UTC)" in text
    assert "* [ML Metrics] one failed: not sent: smtp: mail.example took too long (2026-01-19 07:00 UTC)" in text


def test_each_list_of_recipients_gets_its_own_tests() -> None:
    one, two = ("a@example.com",), ("b@example.com",)
    tests = [
        a_test("one", "@daily", emails=one),
        a_test("two", "@daily", emails=two),
        a_test("three", None, emails=two),
    ]
    with warehouse() as open_warehouse:
        assert send_heartbeats(tests, open_warehouse, load_mail_settings(), NOW) == 2
    found = {mail["To"]: mail for mail in mails()}
    assert "1 of 1 test did not run" in found["a@example.com"]["Subject"]
    assert "1 of 2 tests did not run" in found["b@example.com"]["Subject"]
    assert "two" not in text_of(found["a@example.com"])


def test_a_heartbeat_without_missed_runs_lists_incidents_and_quarantines() -> None:
    ran("fine", days(20))
    with warehouse() as open_warehouse:
        about = {"reasons": ["out_of_bounds:loss"], "cost": "8.96 USD a week: 60 s more"}
        open_warehouse.incidents.report("fine", "run 1", fingerprint="f", at=NOW, **about)
        open_warehouse.incidents.acknowledge("fine", by="a new user")
    quarantine = {"until": "2026-02-01", "reason": "the data set moves"}
    text = send(a_test("fine", "0 3 * * *", quarantine=quarantine))
    assert text.startswith("[ML Metrics] weekly: 1 of 1 test is failing\n")
    assert "Of 1 test, 1 ran as scheduled. Of all, 1 is failing, 1 is in quarantine." in text
    how = "since 2026-01-19 07:00 UTC, acknowledged by a new user, costs 8.96 USD a week"
    assert f"* fine: loss out of bounds ({how})" in text
    assert "* fine: until 2026-02-01: the data set moves" in text


@pytest.mark.parametrize("until", ["2026-01-31", "9998-12-31"])
def test_a_quarantine_of_a_person_is_reported_with_its_last_day(until: str) -> None:
    with warehouse() as opened:
        opened.quarantines.set("one", until=end_of_day(date.fromisoformat(until)), reason="moves", by="a new user")
    text = send(a_test("one", "@daily"))
    assert f"* one: until {until}: moves (a new user)" in text


def test_a_metric_that_is_never_judged_is_listed() -> None:
    ran("daily", days(24)[2:], {"loss": Outcome.INSUFFICIENT_DATA, "time": Outcome.INSUFFICIENT_DATA})
    ran("daily", days(2), {"loss": Outcome.INSUFFICIENT_DATA, "time": Outcome.PASS})
    rule = {"comparison": "less", "success_threshold": {"mads_from_median": 5}, "compare_to": "dialy"}
    text = send(a_test("daily", "0 3 * * *", regression_test_config={"metric_success_conditions": {"default": rule}}))
    assert text.startswith("[ML Metrics] weekly: 1 test ran as scheduled, 1 metric of 1 test was not judged\n")
    assert "* daily: loss: mads_from_median needs 2 earlier runs" in text
    assert "(insufficient data in the last 24 runs)" in text
    assert "time had" not in text


def test_a_condition_that_is_narrower_than_its_noise_is_listed() -> None:
    ran("daily", days(60), {"loss": Outcome.PASS}, value=100, noise=1.5)
    rule = {"comparison": "less", "success_threshold": {"stddevs_from_mean": 0.2}}
    text = send(a_test("daily", "0 3 * * *", regression_test_config={"metric_success_conditions": {"loss": rule}}))
    assert "Conditions that do not fit their past runs:\n* daily: loss fails " in text.replace("\r", "")
    assert "is smaller than the noise" in text


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
    text = send(*tests, a_test("by-hand", None), watched=known)
    assert text.startswith(
        "[ML Metrics] weekly: 1 of 10 tests cannot run, 2 did not run as scheduled, 3 are failing, 1 is paused\n"
    )
    assert (
        "Of 10 tests, 5 ran as scheduled, 1 ran less often, 1 never ran, 1 is paused, 1 cannot run, 1 has no schedule. "
        "Of all, 3 are failing, 1 is in quarantine." in " ".join(text.split())
    )
    assert "* broken: its file cannot be read (broken.yaml:4: x)" in text
    assert "* quiet: until 2026-01-20: moves (a new user)" in text


@pytest.mark.parametrize(("missing", "shown"), [(0, "1 test ran as scheduled"), (1, "ran 19 of 20 times")])
def test_runs_are_expected_from_the_one_that_ran_first(missing: int, shown: str) -> None:
    ended = [NOW - timedelta(hours=hours, minutes=30) for hours in range(20)]
    ran("new", ended[: 10 - missing] + ended[10:])
    text = send(a_test("new", "@hourly", startup_timeout="1m", timeout="1m"))
    assert shown in text


def test_many_tests_are_read_with_few_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = {"comparison": "less", "success_threshold": {"fixed_value": 5}}
    names = [f"t{number:02}" for number in range(25)]
    for name in names:
        ran(name, days(2), {"loss": Outcome.PASS})
    asked: list[str] = []
    rows, stream = SqlStore.rows, SqlStore.stream

    def count(query: str) -> None:
        asked.extend(["history"] * ("metric_history" in query))

    monkeypatch.setattr(SqlStore, "rows", lambda store, query, more: count(query) or rows(store, query, more))
    monkeypatch.setattr(SqlStore, "stream", lambda store, query, more: count(query) or stream(store, query, more))
    config = {"metric_success_conditions": {"loss": rule}}
    send(*(a_test(name, "0 3 * * *", regression_test_config=config) for name in names))
    assert len(asked) == 2, "of twenty tests at a time"


ONE, TWO = [Line("t", "x")], [Line("t", "x")] * 2
RAN = {"on_time": 9}


@pytest.mark.parametrize(
    ("lines", "counts", "headline", "is_good"),
    [
        ({}, {}, "none of 9 tests was scheduled", True),
        ({}, {"on_time": 1234}, "1,234 tests ran as scheduled", True),
        ({"broken": ONE}, {"on_time": 8}, "1 of 9 tests cannot run", False),
        ({"failing": TWO}, {}, "2 of 9 tests are failing", False),
        ({"paused": ONE}, {}, "1 of 9 tests is paused", False),
        ({"undecided": ONE}, {}, "none of 9 tests was scheduled, 1 metric of 1 test was not judged", False),
        (
            {"undecided": [*TWO, Line("u")]},
            RAN,
            "9 tests ran as scheduled, 3 metrics of 2 tests were not judged",
            False,
        ),
        ({"unsent": TWO}, RAN, "9 tests ran as scheduled, 2 messages could not be sent", False),
        ({"quarantined": ONE, "unfit": ONE}, RAN, "9 tests ran as scheduled", True),
        (
            {"broken": ONE, "missed": TWO, "failing": TWO, "paused": ONE},
            {},
            "1 of 9 tests cannot run, 2 did not run as scheduled, 2 are failing, 1 is paused",
            False,
        ),
    ],
)
def test_the_headline_says_the_worst_first(
    lines: dict[str, list[Line]], counts: dict[str, int], headline: str, is_good: bool
) -> None:
    found = Heartbeat(NOW, 9, lines, counts)
    assert headline_of(found) == headline
    style = "ok" if is_good else "warning"
    assert f'<p class="state {style}">' in compose_heartbeat("k", found, [], "", "https://airflow.example").html


@pytest.mark.parametrize(
    ("lines", "counts", "said"),
    [
        ({}, {}, "none was due. Of all, none is failing."),
        ({"missed": TWO}, {"never": 1}, "1 ran less often, 1 never ran. Of all, none is failing."),
        (
            {"paused": ONE, "failing": ONE},
            {"not_due": 1, "unscheduled": 1, "unrecorded": 1},
            "1 is paused, 1 was not due, 1 has no schedule, 1 records no runs. Of all, 1 is failing.",
        ),
        (
            {"paused": TWO, "quarantined": TWO},
            {"not_due": 2, "unscheduled": 2, "unrecorded": 2},
            "2 are paused, 2 were not due, 2 have no schedule, 2 record no runs. Of all, 2 are in quarantine.",
        ),
        ({"broken": ONE}, {"on_time": 6}, "6 ran as scheduled, 1 cannot run. Of all, none is failing."),
    ],
)
def test_each_test_is_counted_by_what_it_did(lines: dict[str, list[Line]], counts: dict[str, int], said: str) -> None:
    assert counts_of(Heartbeat(NOW, 9, lines, counts)) == f"Of 9 tests, {said}"


def test_a_heartbeat_matches_its_golden_files_and_counts_what_it_does_not_list() -> None:
    message = compose_heartbeat("heartbeat-1", HEARTBEAT, ["a@example.com"], "", "https://airflow.example/ml-metrics")
    check("alerts/heartbeat.txt", f"Subject: {message.subject}\n\n{message.text}")
    check("alerts/heartbeat.html", message.html)
    told = ["missed:tf", "missed:pt", "undecided:tf", "undecided:pt", "unfit:jax"]
    assert [reason.name.partition("-")[0] for reason in message.reasons] == told
    many = compose_heartbeat("k", Heartbeat(NOW, 60, dict.fromkeys(SECTIONS, ONE * (MAX_ROWS + 2))), [], "", "")
    for body in (many.text, many.html):
        assert body.count("and 2 more") == len(SECTIONS)


RULE = {"comparison": "less", "success_threshold": {"fixed_value": 0.5}}
FAR = {"comparison": "less", "success_threshold": {"fixed_value": 5000.0}}
LOSS = {"loss": Outcome.PASS}


def judged(name: str, **rules: Any) -> TestDefinition:
    return a_test(name, None, regression_test_config={"metric_success_conditions": rules})


def hours(count: int) -> list[datetime]:
    return [NOW - timedelta(hours=number) for number in range(count)]


def test_what_past_runs_show_about_conditions_is_what_a_query_for_each_test_would_show() -> None:
    runs = {"healthy": 60, "strict": 60, "compared": 130, "base": 70, "short": 3, "like-prod": 60, "like-dev": 60}
    for name, count in runs.items():
        ran(name, hours(count), LOSS, value=2.0 if name == "compared" else 1.0, noise=0.01)
    for deployment, value in (("prod", 9.0), ("dev", 0.5)):
        ran("base", hours(60), LOSS, value=value, noise=0.01, deployment=deployment)
    relative = {"comparison": "less", "success_threshold": {"stddevs_from_mean": 0.2}}
    tests = [
        judged("healthy", loss=FAR, **{"gone_*": {**RULE, "optional": True}}),
        judged("strict", loss=relative),
        judged("compared", loss={**relative, "compare_to": {"test": "base"}}),
        judged("short", loss={**relative, "compare_to": {"test": "base", "deployment": "prod"}}),
        judged("like-prod", loss={**relative, "compare_to": {"test": "base", "deployment": "prod"}}),
        judged("like-dev", loss={**relative, "compare_to": {"test": "base", "deployment": "dev"}}),
        judged("never", loss=RULE),
    ]
    with warehouse() as opened:
        found = findings(tests, opened, 10)
        assert found.keys() == runs.keys() - {"base"}
        for test in tests[:-1]:
            config = test.regression_test_config
            needs = history_needs(config, test.name)
            needs = HistoryNeeds(needs.tests, 0, heartbeat.FIT_RUNS, None, needs.elsewhere)
            unfit = misfits(config, opened.metrics.history(needs), test=test.name)
            assert [one.text for one in found[test.name][1]] == [" ".join(one) for one in unfit]
            recent = HistoryNeeds((test.name,), 0, runs_of(test, 10), None)
            silent = silent_in(test, opened.metrics.history(recent), 10)
            assert [one.text for one in found[test.name][0]] == [f"{one.metric}: {one.reason}" for one in silent]
    assert found["strict"][1]
    assert found["compared"][1]
    assert "can never fail" in found["like-prod"][1][0].text
    assert "fails 100 % of the past runs" in found["like-dev"][1][0].text
    assert found["healthy"][0]


def test_a_condition_that_needs_many_runs_gets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "FIT_RUNS", 10)
    ran("deep", hours(45), LOSS, noise=0.01)
    test = judged("deep", **{"gone_*": {**RULE, "optional": True}})
    with warehouse() as opened:
        [one], _ = findings([test], opened, 10)["deep"]
        assert one.more.endswith("in the last 45 runs")
        assert findings([test], opened, 0)["deep"][0] == []
    assert newest([], 3) == []
