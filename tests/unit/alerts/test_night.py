"""The morning: one view for the terminal, the page, the mail and JSON; and the alert budget of a night."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.airflow import load_mail_settings, warehouse
from ml_metrics.alerts import night_of, send_due_digests
from ml_metrics.alerts.night import Line, Night, Use, is_beyond_budget
from ml_metrics.core.model import Bounds, JobStatus, Metric, Outcome, Run, Verdict, Workload
from ml_metrics.warehouse import StoredMessage, Warehouse, run_record
from simulated_runs import NAME, START, SimulatedRun, failed, good, notify_about, simulate, with_test
from unit.alerts.mailbox import subjects

LEVEL = {"metric_success_conditions": {"loss_final": {"comparison": "less", "success_threshold": {"change_point": {}}}}}
RUNS = 16
NOON = datetime(2026, 1, 21, 12, tzinfo=UTC)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
BROKE = ("out_of_bounds:loss",)


def ended(opened: Warehouse, test: str, at: datetime, *verdicts: Verdict, owner: str = "o", failed: str = "") -> Run:
    run = Run(test, test, f"scheduled__{at}", "local")
    workload = Workload(JobStatus.FAILURE if failed else JobStatus.SUCCESS, failed or None, ended_at=at)
    metrics = [Metric(one.metric, one.value, one.metric, "final") for one in verdicts if one.value is not None]
    opened.load(run_record(run, workload, metrics, verdicts, {}, owner=owner))
    return run


def report(opened: Warehouse, test: str, at: datetime, reasons: Sequence[str] = BROKE, **more: str) -> None:
    opened.incidents.report(test, f"run of {test} at {at}", fingerprint="f", reasons=reasons, at=at, **more)


def told() -> list[str]:
    return [one.removeprefix("[ML Metrics] ") for one in subjects()]


class Series:
    """A test whose loss is judged by its level."""

    def __init__(self) -> None:
        self.random, self.number = Random(3), 0

    def runs(self, count: int, level: float, *, told: bool = True) -> None:
        for _ in range(count):
            self.number += 1
            value = level * (1 + self.random.uniform(-0.01, 0.01))
            run = with_test(good(loss_final=value), regression_test_config=LEVEL)
            simulate(self.number, run)
            if told:
                notify_about(self.number, run)

    def night(self, days: float = 0) -> Night:
        now = datetime.now(UTC) + timedelta(days=days)
        with warehouse() as opened:
            return night_of(opened, {}, now - timedelta(days=1), now)

    def mails(self, days: float) -> int:
        with warehouse() as opened:
            return send_due_digests(opened, load_mail_settings(), datetime.now(UTC) + timedelta(days=days))


@pytest.fixture
def series(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Series:
    (tmp_path / "policy.yaml").write_text("alert_budget: {default: 1 in 7 nights, vision-team: 1 in 40000 nights}\n")
    monkeypatch.setenv("AIRFLOW__ML_METRICS__POLICY", str(tmp_path / "policy.yaml"))
    made = Series()
    made.runs(RUNS, 0.1, told=False)
    return made


def test_what_the_budget_holds_back_is_told_as_soon_as_it_has_lasted(series: Series) -> None:
    series.runs(4, 0.1025)
    assert told() == []
    (mark,) = series.night().silent
    assert mark.test == NAME
    assert "the level rose" in mark.text
    assert "the alert budget" in mark.text
    assert series.night().needs == ()
    series.runs(5, 0.1025)
    (subject,) = told()
    assert subject.startswith(f"{NAME} failed: loss_final +2.")
    assert [one.test for one in series.night().needs] == [NAME]
    series.runs(5, 0.1)
    assert [one.split()[1].rstrip(":") for one in told()] == ["failed", "recovered"]


def test_what_comes_and_goes_within_the_budget_is_only_a_mark(series: Series) -> None:
    series.runs(4, 0.1025)
    series.runs(5, 0.1)
    assert series.mails(days=5) == 0
    assert told() == []
    (mark,) = series.night().recovered
    assert "; held back: the alert budget" in mark.text


def test_what_lasts_is_in_the_mail_of_the_morning(series: Series) -> None:
    series.runs(4, 0.1025)
    assert series.mails(days=2.9) == 0
    assert series.mails(days=3.1) == 1
    series.runs(5, 0.1)
    assert [one.split(";")[0].partition(": ")[0] for one in told()] == ["1 silent", f"{NAME} recovered after 3 days"]


def test_a_level_far_beyond_its_noise_is_told_at_once(series: Series) -> None:
    series.runs(3, 0.2)
    assert [one.split()[1] for one in told()] == ["failed:"]


FIXED = {
    "metric_success_conditions": {
        "accuracy_final": {"comparison": "greater", "success_threshold": {"fixed_value": 0.966}}
    }
}


@pytest.mark.parametrize(
    ("run", "subject"),
    [
        (with_test(good(accuracy_final=0.9655), regression_test_config=FIXED), "accuracy_final"),
        (failed(JobStatus.FAILURE, "ExitCode:3"), "exit code 3"),
    ],
)
def test_what_is_no_level_is_told_at_once(series: Series, run: SimulatedRun, subject: str) -> None:
    simulate(series.number + 1, run)
    notify_about(series.number + 1, run)
    assert [one.startswith(f"{NAME} failed: {subject}") for one in told()] == [True]


def test_a_budget_states_what_it_sent_and_held_and_what_half_and_twice_of_it_would_send() -> None:
    """Alarms of strength 10 and 1.2: noise alone brings 3e-7 and 5e-5 of each judged metric in a night."""
    level, bound = "no rise that lasts 3 runs", "less than 1.1"
    judged = [  # test, owner, rule, value, hours before noon, occasion, why it is held
        ("strong", "o", level, 2.0, 1, "broken", ""),
        ("weak", "o", level, 1.12, 1, "broken", "the alert budget"),
        ("own", "p", level, 1.12, 1, "worse", ""),
        ("fixed", "o", bound, 1.12, 1, "broken", ""),
        ("healthy", "o", level, 1.0, 1, "recovered", ""),
        ("earlier", "o", level, 2.0, 25, "broken", ""),
        ("later", "o", level, 2.0, 0, "broken", ""),
    ]
    with warehouse() as opened:
        for test, owner, rule, value, hours, occasion, held in judged:
            at, outcome = NOON - hours * HOUR, Outcome.PASS if value == 1.0 else Outcome.FAIL
            verdict = Verdict("loss", outcome, value, Bounds(upper=1.1), rule, reference=1.0)
            run = ended(opened, test, at, verdict, owner=owner)
            row = StoredMessage(test, run.key, test, owner, occasion, "h", at, (), "s", (), held_because=held)
            opened.messages.add(row)
        night = night_of(opened, {"default": 1 / 10_000, "p": 1 / 1000}, NOON - DAY, NOON)
    assert [str(one) for one in night.budgets] == [
        "1 in 10000 nights, over 3 judged metrics: 1 sent, 1 held back; half of it sends 1, twice 2",
        "1 in 1000 nights of p, over 1 judged metric: 1 sent, 0 held back; half of it sends 1, twice 1",
    ]
    assert night.lines()[-1] == f"alert budget   {night.budgets[0]}"
    assert night.notice("").sentences == (f"Alert budget: {night.budgets[0]}.",)


@pytest.mark.parametrize(
    ("others", "held"),
    [
        ([], False),
        ([("a", 1.0, 1)], True),
        ([("a", 1.0, 25)], False),
        ([("strong", 2.0, 1)], False),
        ([("strong", 2.0, -1)], False),
        ([("a", 1.0, 1), ("strong", 2.0, 25)], True),
        ([("own", 1.05, 1), ("own", 1.05, 2)], True),
    ],
    ids=["alone", "two metrics", "a day later", "two alarms", "a clock is ahead", "an alarm of before", "a first run"],
)
def test_an_alarm_is_held_by_the_metrics_and_the_alarms_of_the_last_day(
    others: list[tuple[str, float, int]], held: bool
) -> None:
    """Noise alone brings 4.8e-5 of each judged metric in a night to the strength of this alarm, 7e-5 to any."""

    def verdict(value: float) -> Verdict:
        outcome = Outcome.PASS if value < 1.1 else Outcome.FAIL
        return Verdict("loss", outcome, value, Bounds(upper=1.1), "no rise that lasts 3 runs", reference=1.0)

    with warehouse() as opened:
        for test, value, hours in others:
            at = NOON - hours * HOUR
            run = ended(opened, test, at, verdict(value))
            if value > 1.1:
                opened.messages.add(StoredMessage(test, run.key, test, "o", "broken", "h", at, (), "s", ()))
        own = ended(opened, "own", NOON, verdict(1.12))
        budgets = {"default": 6e-5}
        assert is_beyond_budget(own, "o", [verdict(1.12)], opened, budgets, NOON) is held


def test_a_night_of_the_past_has_what_was_broken_then(series: Series) -> None:
    series.runs(3, 0.2)
    until = datetime.now(UTC)
    series.runs(5, 0.1)
    with warehouse() as opened:
        night = night_of(opened, {}, until - timedelta(days=1), until)
    assert ([one.test for one in night.needs], night.recovered) == ([NAME], ())
    assert ([one.test for one in series.night().recovered], series.night().needs) == ([NAME], ())


def test_every_metric_with_a_condition_is_counted_and_the_budget_is_of_levels(series: Series) -> None:
    fixed = {"comparison": "greater", "success_threshold": {"fixed_value": 0.5}}
    conditions = {**LEVEL["metric_success_conditions"], "accuracy_final": fixed}
    run = with_test(good(loss_final=0.1), regression_test_config={"metric_success_conditions": conditions})
    simulate(series.number + 1, run)
    until = START + timedelta(days=series.number + 2)
    with warehouse() as opened:
        night = night_of(opened, {"default": 1 / 7}, until - timedelta(days=1.5), until)
        others = night_of(opened, {}, until - timedelta(days=1.5), until, tests=("another-test",))
    assert night.headline.endswith("1 test ran, 2 metrics judged")
    assert "over 1 judged metric:" in str(night.budgets[0])
    assert others.headline.endswith("0 tests ran, 0 metrics judged")


@given(st.tuples(*(st.integers(0, 40) for _ in range(4))), st.integers(1, 12))
def test_a_night_is_ten_lines_and_counts_what_it_leaves_out(numbers: tuple[int, ...], room: int) -> None:
    sections = [
        tuple(Line(f"{name}-{one}", "why") for one in range(n)) for name, n in zip("abcd", numbers, strict=True)
    ]
    night = Night(NOON, NOON, 1, 1, *sections)
    assert 1 + sum(map(bool, numbers)) <= len(night.lines()) <= 9, "and one of the budget"
    shown = list(night.shown(room))
    assert len(shown) <= max(room, sum(map(bool, numbers)))
    said = [name for _, line in shown for name in [line.test, *line.text.partition(": ")[2].split(", ")] if name]
    assert said == [line.test for lines in sections for line in lines]


def test_each_section_has_what_matters_most_first_and_no_test_is_in_two() -> None:
    image, node = {"cause": "image: a"}, {"cause": "node: n"}
    more = {"dear": {"cost": "1,008.96 USD a week: 60 s more"}, "cheap": {"cost": "9.00 USD a week: 1 s more"}}
    more |= {"a": image, "b": image, "c": node, "d": node, "e": node, "f": node, "alone": {"cause": "a change"}}
    names = ("after", "definition:new", "alone", "old", "cheap", "dear", "known", "quiet", "was", *"abcdef")
    with warehouse() as opened:
        for hours, test in enumerate(names):
            report(opened, test, NOON - hours * HOUR, **more.get(test, {}))
        for test, note in (("known", "a new data set"), ("f", "")):
            opened.incidents.acknowledge(test, by="vera", note=note)
        for test, until in (("quiet", NOON + DAY), ("other", NOON)):
            opened.quarantines.set(test, until=until, reason="the data moves", by="vera")
        opened.incidents.close("was", "a later run", at=NOON - HOUR)
        ended(opened, "dear", NOON, failed="ExitCode:3")
        ended(opened, "cheap", NOON - HOUR, failed="ExitCode:3")
        ended(opened, "old", NOON - 25 * HOUR, Verdict("loss", Outcome.MISSING, None, None, ""))
        night = night_of(opened, {}, NOON - DAY, NOON)
        own = night_of(opened, {}, NOON - DAY, NOON, tests=("new", "cheap", "a"))
    broke, since = "loss out of bounds", "since 2026-01-21"
    assert night.needs == (
        Line("dear", f"{broke}; costs 1,008.96 USD a week, {since}"),
        Line("cheap", f"failure: ExitCode:3, costs 9.00 USD a week, {since}"),
        Line("new", f"{broke}, {since}"),
        Line("alone", f"{broke}, {since}"),
        Line("old", f"loss is missing, {since}"),
    )
    assert night.together == (
        Line("", f"3 tests: node: n, {since}: c, d, e"),
        Line("", f"2 tests: image: a, {since}: a, b"),
    )
    assert night.recovered == (Line("was", f"works again (was: {broke})"),)
    assert night.silent == (
        Line("f", "acknowledged by vera"),
        Line("known", "acknowledged by vera: a new data set"),
        Line("quiet", "in quarantine until 2026-01-22: the data moves"),
    )
    assert [one.test for one in own.needs] == ["cheap", "new", "a"]
    assert (own.together, own.recovered, own.silent) == ((), (), ())
    assert night.headline.startswith("5 need a person, 2 causes moved several tests, 1 recovered, 3 silent; ")


def test_what_was_broken_before_a_recovery_reads_as_a_sentence() -> None:
    with warehouse() as opened:
        report(opened, "t", NOON - DAY, ["job_status:failure/ExitCode:4", "change_point:loss"])
        opened.incidents.close("t", "a later run", at=NOON - HOUR)
        (told,) = night_of(opened, {}, NOON - DAY, NOON).recovered
    assert told.text == "works again (was: the job failed: ExitCode:4, the level of loss changed)"


@pytest.mark.parametrize(
    ("needs", "together", "is_good"), [((), (), True), ((Line("a", "x"),), (), False), ((), (Line("", "x"),), False)]
)
def test_a_mail_of_the_morning_is_good_news_if_nothing_needs_a_person(
    needs: tuple[Line, ...], together: tuple[Line, ...], is_good: bool
) -> None:
    night = Night(NOON, NOON, 1, 1, needs, together, recovered=(Line("b", "was x"),), silent=(Line("c", "why"),))
    notice = night.notice("http://x")
    assert notice.is_good is is_good
    of_test = {one.name[-1]: one.link for one in notice.items if ": " in one.name}
    assert of_test == {test: f"http://x/test?test={test}" for test in ("abc" if needs else "bc")}
    assert [one.link for one in notice.items if one.name == "moved together"] == ["http://x/night"] * len(together)


def test_what_is_held_is_told_once_with_what_its_subject_leaves_out() -> None:
    reasons = ("memory 5 GB (was 4 GB)", *(f"{one} rose" for one in "abcd"))
    row = StoredMessage("m", "r", "nightly", "o", "warning", "h", NOON - HOUR, (), "", reasons, state="held")
    row = replace(row, held_because="a warning")
    broken = {"subject": "nightly failed: x", "held_because": "many tests failed", "occasion": "broken"}
    rows: tuple[dict[str, Any], ...] = (
        {"subject": "[ML Metrics] nightly has a warning: memory 5 GB"},
        {"subject": "something else", "reasons": ()},
        {"subject": "later", "timestamp": NOON},
        {"subject": "recovered", "occasion": "recovered"},
        {"subject": "sent at once", "held_because": ""},
        {"subject": "told", "held_because": "it was in a digest"},
        broken,
        {**broken, "test": "open"},
    )
    with warehouse() as opened:
        for number, more in enumerate(rows):
            opened.messages.add(replace(row, message=f"m-{number}", **more))
        report(opened, "open", NOON - HOUR)
        night = night_of(opened, {}, NOON - DAY, NOON)
    assert sorted(one.text for one in night.silent) == [
        "failed: x; memory 5 GB (was 4 GB); a rose; b rose (many tests failed, since 2026-01-21 11:00)",
        "has a warning: memory 5 GB; a rose; b rose; c rose (a warning, since 2026-01-21 11:00)",
        "something else (a warning, since 2026-01-21 11:00)",
    ]


@pytest.mark.parametrize(
    ("rule", "value", "proposal"),
    [
        ("no rise that lasts 3 runs", 1.1, "min_change: {percent: 10}, or rerun: {beyond: 4}"),
        ("no rise that lasts 3 runs", 0.9, "min_change: {percent: 14}, or rerun: {beyond: 4}"),
        ("no rise that lasts 3 runs", 1.6, "measure it again in the same night: rerun: {beyond: 4}"),
        ("less than mean + 5 sd", 1.1, "judge its level: success_threshold: {change_point: {}}"),
    ],
)
def test_a_metric_whose_alarms_came_and_went_has_a_proposal(rule: str, value: float, proposal: str) -> None:
    alarms = (("x", 40, 1), ("t", 20, 6), ("v", 9.5, 4), ("t", 8, 3.9), ("u", 7, 1), ("t", 3, 2), ("w", 1, 2))
    with warehouse() as opened:
        for day in range(3):
            verdict = Verdict("loss", Outcome.FAIL, value - 0.01 * day, None, rule, reference=1.0)
            ended(opened, "t", NOON - day * DAY, verdict)
        for test, began, days in alarms:
            at = NOON - began * DAY
            message = StoredMessage(f"run of {test} at {at}", "r", test, "o", "broken", "h", at, (), "failed", ())
            opened.messages.add(message)
            report(opened, test, at)
            opened.incidents.close(test, f"run of {test} after {at}", at=at + days * DAY)
        night = night_of(opened, {}, NOON - DAY, NOON)
    again = "measure it again in the same night: rerun: {beyond: 4}"
    assert night.uses == (Use("t", "loss", 2, proposal), Use("u", "loss", 1, again))
