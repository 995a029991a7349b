"""The weekly message about cost."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ml_metrics.airflow import load_mail_settings, warehouse
from ml_metrics.alerts import cost_week, send_cost_of_week
from ml_metrics.alerts.cost_week import notice_of
from ml_metrics.core.kinds import cost_metric
from ml_metrics.core.model import JobStatus, Metric, Run, Workload
from ml_metrics.core.money import CURRENCIES, as_number
from ml_metrics.measure.efficiency import RunCost
from ml_metrics.ui.dashboard.fleet import page_of_fleet
from ml_metrics.ui.dashboard.links import ServerLinks
from ml_metrics.ui.dashboard.page import Page, Reader
from ml_metrics.warehouse import Warehouse, open_warehouse, run_record
from unit.alerts.mailbox import mails, text_of

NOW = datetime(2026, 1, 19, 7, tzinfo=UTC)  # a Monday


def load(days_ago: float, dollars: float) -> None:
    ended = NOW - timedelta(days=days_ago)
    values = {"chip_hours": 4.0, "cost_usd": dollars, "cost_productive_usd": dollars - 1, "cost_stall_usd": 1.0}
    metrics = [Metric(name, value, name, "efficiency") for name, value in values.items()]
    run, workload = Run("train", "train", f"scheduled__{ended}", "local"), Workload(JobStatus.SUCCESS, ended_at=ended)
    with warehouse() as opened:
        opened.load(run_record(run, workload, metrics, [], {}, owner="team"))


def test_a_week_is_sent_once_to_its_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__COST_EMAILS", "boss@example.com, cfo@example.com")
    for days_ago, dollars in ((0.1, 50.0), (0.5, 10.0), (6.9, 20.0), (8.0, 12.5)):  # today is no part of the week
        load(days_ago, dollars)
    with warehouse() as opened:
        for later in range(2):
            assert send_cost_of_week(opened, load_mail_settings(), NOW + timedelta(minutes=later))
    (mail,) = mails()
    text = text_of(mail)
    assert mail["To"] == "boss@example.com, cfo@example.com"
    assert mail["Subject"] == "[ML Metrics] 30.00 USD for 8 chip hours in the week to 2026-01-18"
    assert "2 runs; the week before: 12.50 USD for 4 chip hours. That is more by 17.50 USD." in text
    assert "Of the measured USD, 93.3 % were spent on productive training." in text
    assert "2.00 USD for stall in 2 runs (team)" in text


WEEK = timedelta(days=7)
SPRING = datetime(2026, 3, 1, tzinfo=UTC)
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Beirut")
"""Lord Howe changes by half an hour; in Beirut, a day may begin at 1 o'clock."""
MONDAYS = (
    date(2026, 3, 9), date(2026, 3, 23), date(2026, 3, 30), date(2026, 4, 6), date(2026, 6, 1),
    date(2026, 10, 19), date(2026, 10, 26), date(2026, 11, 2),
)  # fmt: skip
"""Of weeks in or beside which the clocks of one of these zones change, and one of no such week."""
BUCKETS = ("productive", "stall", "training_prep", "outside_log", "queue")
CURRENCY = st.sampled_from(["USD", "EUR", "JPY", "KWD"])
AMOUNT = re.compile(r"(?<![\w.])(-?[\d,]+(?:\.\d+)?) ([A-Z]{3})\b")
Amounts = Mapping[str, int]


def midnight(day: date, zone: str) -> datetime:
    return datetime.combine(day, time.min, ZoneInfo(zone)).astimezone(UTC)


@st.composite
def runs_around(draw: st.DrawFn) -> tuple[str, date, list[dict[str, Any]]]:
    """A zone, a Monday, and runs of that week and the two beside it, many of them within a second of its borders."""
    zone, monday = draw(st.sampled_from(ZONES)), draw(st.sampled_from(MONDAYS))
    borders = [midnight(monday + timedelta(days=days), zone) for days in (-7, 0, 7, 14)]
    beside = st.tuples(st.sampled_from(borders), st.sampled_from([-1e6, -1, -1e-6, 0, 1e-6, 1, 3600, 1e6]))
    moment = beside.map(lambda pair: pair[0] + timedelta(seconds=pair[1]))
    run = st.fixed_dictionaries(
        {
            "at": moment | st.integers(0, 260 * 86_400).map(lambda seconds: SPRING + timedelta(seconds=seconds)),
            "test": st.sampled_from(["t0", "t1", "t2"]),
            "owner": st.integers(0, 14).map(lambda number: f"team-{number}" if number else ""),
            "status": st.sampled_from([JobStatus.SUCCESS, JobStatus.SUCCESS, JobStatus.FAILURE]),
            "chip_hours": st.sampled_from([None, 0.0, 0.25, 16.0]),
            "costs": st.dictionaries(
                CURRENCY, st.dictionaries(st.sampled_from(BUCKETS), st.integers(0, 10**9)) | st.integers(0, 10**12),
                max_size=2,
            ),
            "off": st.booleans(),
        }
    )  # fmt: skip
    return zone, monday, draw(st.lists(run, max_size=25))


def units(run: Mapping[str, Any]) -> Amounts:
    return {currency: each if isinstance(each, int) else sum(each.values()) for currency, each in run["costs"].items()}


def stored(number: int, run: Mapping[str, Any]) -> Any:
    values = {} if run["chip_hours"] is None else {"chip_hours": run["chip_hours"]}
    for currency, each in run["costs"].items():
        values[cost_metric(currency)] = as_number(units(run)[currency], currency)
        if not isinstance(each, int) and not (run["off"] and sum(each.values()) > 1):
            values |= {cost_metric(currency, bucket): as_number(part, currency) for bucket, part in each.items()}
    metrics = [Metric(name, value, name, "efficiency") for name, value in values.items()]
    who = Run(run["test"], run["test"], f"run-{number}", "local")
    return run_record(who, Workload(run["status"], ended_at=run["at"]), metrics, (), {}, owner=run["owner"])


def added(each: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for run in each:
        total.update(units(run))
    return dict(total)


def in_words(text: str) -> dict[str, int]:
    """Return the amounts that stand in a text."""
    found: Counter[str] = Counter()
    for number, currency in AMOUNT.findall(text):
        found[currency] += int(Decimal(number.replace(",", "")) * 10 ** CURRENCIES[currency])
    return dict(found)


def exact(texts: Mapping[str, str]) -> dict[str, int]:
    return {currency: int(Decimal(text) * 10 ** CURRENCIES[currency]) for currency, text in texts.items()}


def without_zeros(amounts: Amounts) -> dict[str, int]:
    return {currency: each for currency, each in amounts.items() if each}


def summed(many: Iterator[Amounts] | Sequence[Amounts]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for one in many:
        total.update(one)
    return without_zeros(total)


def check_page(page: Page, chosen: Sequence[Mapping[str, Any]], before: Sequence[Mapping[str, Any]]) -> None:
    document, expected = page.document(), added(chosen)
    assert exact(document["total"]["cost"]) == expected
    assert document["total"]["runs"] == len(chosen)
    assert exact(document["before"]["cost"]) == added(before)
    assert summed(list(map(exact, document["total"]["reasons"].values()))) == without_zeros(expected)
    for group in ("by_owner", "by_test"):
        assert summed([exact(bill["cost"]) for bill in document[group].values()]) == without_zeros(expected)
    header, *rows = page.table()
    lines = [dict(zip(header, row, strict=True)) for row in rows]
    assert summed([exact({line["currency"]: line["cost"]}) for line in lines if line["cost"]]) == without_zeros(
        expected
    )
    hours = sum(run["chip_hours"] or 0 for run in chosen)
    assert sum(line["chip_hours"] or 0 for line in lines) == hours == document["total"]["chip_hours"]
    for line in lines:  # a run without a price has no amount at all, and nobody invents one
        assert (line["cost"] is None) == (line["currency"] is None)


def check_mail(opened: Warehouse, since: datetime, until: datetime, chosen: Sequence[Mapping[str, Any]]) -> None:
    runs = opened.costs.between(since, until)
    notice = notice_of(runs, opened.costs.between(since - WEEK, since), since, until, "http://localhost")
    expected = added(chosen)
    assert in_words(notice.headline.partition(" for ")[0]) == expected
    by_owner = [item for item in notice.items if "owner" in item.name]
    reasons = [item for item in notice.items if item.name.startswith("spent on")]
    assert summed([in_words(item.value.partition(" for ")[0]) for item in by_owner]) == without_zeros(expected)
    assert summed([in_words(item.value) for item in reasons]) == without_zeros(expected)
    unknown = sum(not run["costs"] and run["chip_hours"] != 0 for run in chosen)
    told = next((text for text in notice.sentences if "no cost" in text), "0 ")
    assert int(told.split()[0]) == unknown
    troubles = [item for item in notice.items if item.name.startswith("trouble")]
    assert all(count <= 5 for count in Counter(item.value.split()[1] for item in troubles).values())


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warehouse]:
    with open_warehouse(f"sqlite:///{tmp_path_factory.mktemp('sums')}/w.db") as warehouse:
        warehouse.load_all([])
        yield warehouse


@given(around=runs_around())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_sums_are_those_of_the_runs(opened: Warehouse, around: tuple[str, date, list[dict[str, Any]]]) -> None:
    check(opened, *around)


def check(opened: Warehouse, zone: str, monday: date, runs: Sequence[Mapping[str, Any]]) -> None:
    """Compare the week, and the one after it, in page and CSV, and the mail of the week, with the runs themselves."""
    opened.database.change("DELETE FROM job_history")
    opened.database.change("DELETE FROM metric_history")
    opened.load_all([stored(number, run) for number, run in enumerate(runs)])
    weeks = [(midnight(monday + timedelta(days=first), zone), midnight(monday + timedelta(days=first + 7), zone))
             for first in (-7, 0, 7)]  # fmt: skip
    of_week = [[run for run in runs if since <= run["at"] < until] for since, until in weeks]
    for place, first in ((1, monday), (2, monday + WEEK)):
        query = {"since": f"{first}", "until": f"{first + timedelta(days=6)}", "tz": zone}
        page = page_of_fleet(opened, query, Reader(weeks[2][1], ServerLinks()))
        check_page(page, of_week[place], of_week[place - 1])
    check_mail(opened, *weeks[1], of_week[1])


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("monday", MONDAYS)
def test_the_mail_is_about_the_seven_days_before_today(
    zone: str, monday: date, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans: list[tuple[datetime, datetime]] = []

    def between(*span: datetime) -> list[RunCost]:
        spans.append((span[0], span[1]))
        return []

    costs = SimpleNamespace(between=between)
    monkeypatch.setattr(cost_week, "send_summary", lambda *_: None)
    mail = SimpleNamespace(cost=("boss@example.com",), dashboard_url="", deployment="", sender="")
    now = datetime.combine(monday, time(7), ZoneInfo(zone))
    cost_week.send_cost_of_week(SimpleNamespace(costs=costs), mail, now)  # type: ignore[arg-type]
    borders = [midnight(monday + timedelta(days=days), zone) for days in (-14, -7, 0)]
    assert [tuple(one.astimezone(UTC) for one in span) for span in spans] == [
        (borders[1], borders[2]), (borders[0], borders[1]),
    ]  # fmt: skip
