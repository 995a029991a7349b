from __future__ import annotations

import csv
import io
import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ml_metrics.config.problems import InvalidFileError
from ml_metrics.config.settings_file import read_once, settings_file
from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.core.values import BEGINNING_OF_TIME, END_OF_TIME
from ml_metrics.measure.efficiency import read_billing
from ml_metrics.measure.efficiency.prices import NoPriceError, Offer, PriceBook, Purchase

EXAMPLE = Path(__file__).parents[4] / "include/prices/example.yaml"
V5E = {"accelerator": "v5e", "region": "us-central1", "purchase": "on_demand", "currency": "USD"}
FIRST, LAST = BEGINNING_OF_TIME.replace(tzinfo=None), END_OF_TIME.replace(tzinfo=None) - timedelta(seconds=1)
OFFER = Offer("v5e", "us-central1", Purchase.ON_DEMAND)


def book(*prices: dict[str, Any]) -> PriceBook:
    return PriceBook.model_validate({"title": "test", "prices": [{**V5E, **price} for price in prices]})


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def read(tmp_path: Path, line: str) -> PriceBook:
    path = tmp_path / "prices.yaml"
    path.write_text(f"title: mine\nprices:\n  - {{{line}}}\n")
    return read_once(path, PriceBook, "the price book")


GOOD = "accelerator: v5e, region: r, purchase: spot, currency: USD, per_chip_hour: 1.20, from: 2026-01-01"


def test_the_example_is_valid_and_says_that_its_prices_are_made_up() -> None:
    example = read_once(EXAMPLE, PriceBook, "the price book")
    assert "made-up" in example.title
    assert example.currencies == ("EUR", "USD")


def test_a_price_is_exactly_what_is_written(tmp_path: Path) -> None:
    assert read(tmp_path, GOOD).prices[0].per_chip_hour == Decimal("1.2")


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (GOOD.replace("v5e", "v5"), r"prices.yaml:3: prices\[0\].accelerator: 'v5' is not a chip; .* did you mean"),
        (GOOD.replace("v5e", "v5litepod-8"), "is not a chip"),
        (GOOD.replace("USD", "usd"), "'usd' is not a currency of ISO 4217"),
        (GOOD.replace("USD", "XTS"), "is not a currency"),
        (GOOD.replace("1.20", "0"), "above 0"),
        (GOOD.replace("1.20", "-1"), "above 0"),
        (GOOD.replace("1.20", ".nan"), "above 0"),
        (GOOD.replace("1.20", ".inf"), "above 0"),
        (GOOD.replace("1.20", "true"), "should be a number"),
        (GOOD.replace("1.20", "1_200.5"), "should be a number like 4.20, not '1_200.5': write 1200.5"),
        (GOOD.replace("1.20", '"1.20"'), "should be a number"),
        (GOOD.replace("1.20", "1.2345678901234567"), "at most 15 digits"),
        (GOOD.replace("spot", "cheap"), "purchase"),
        (GOOD.replace("2026-01-01", "1"), "day like"),
        (GOOD + ", to: 2025-12-31", "before `from`"),
        (GOOD + ", queue_is_billed: true", "reserved"),
        (GOOD + ", until: 2026-12-31", "unknown key|not a known key|until"),
        (GOOD.replace(", currency: USD", ""), "currency"),
    ],
)
def test_mistakes_have_file_and_line(tmp_path: Path, line: str, what: str) -> None:
    with pytest.raises(InvalidFileError, match=what) as error:
        read(tmp_path, line)
    assert "prices.yaml:" in str(error.value)


def test_a_price_book_is_not_in_the_folder_of_test_files(tmp_path: Path) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text(f"title: mine\nprices:\n  - {{{GOOD}}}\n")
    with pytest.raises(InvalidFileError, match="whose authors could change it"):
        settings_file(str(path), PriceBook, "the price book", tmp_path)


def test_prices_that_overlap_are_named() -> None:
    with pytest.raises(
        ValueError, match=r"prices\[1\] and prices\[0\] are both for v5e, on demand, in us-central1, on 2026-06-30"
    ):
        book({"per_chip_hour": 2, "from": "2026-06-30"}, {"per_chip_hour": 1, "from": "2026-01-01", "to": "2026-06-30"})


def test_a_price_without_an_end_overlaps_a_later_one() -> None:
    with pytest.raises(ValueError, match="are both for"):
        book({"per_chip_hour": 1, "from": "2026-01-01"}, {"per_chip_hour": 2, "from": "2026-07-01"})


def test_a_time_is_split_where_the_price_changes() -> None:
    found = book(
        {"per_chip_hour": 2, "from": "2026-07-01"}, {"per_chip_hour": 1, "from": "2026-01-01", "to": "2026-06-30"}
    ).between(OFFER, at("2026-06-30T23:00"), at("2026-07-01T02:00"))
    assert [(span.end - span.start, span.price.per_chip_hour) for span in found] == [
        (timedelta(hours=1), 1), (timedelta(hours=2), 2),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("2025-12-31T23:00", "2026-01-01T01:00"),
        ("2026-06-30T23:00", "2026-07-01T00:01"),
        ("2026-06-30T23:00", "2026-07-02T01:00"),
        ("2026-07-01T03:00", "2026-07-01T04:00"),
    ],
)
def test_a_gap_has_no_price(start: str, end: str) -> None:
    gapped = book(
        {"per_chip_hour": 1, "from": "2026-01-01", "to": "2026-06-30"}, {"per_chip_hour": 2, "from": "2026-07-02"}
    )
    with pytest.raises(NoPriceError, match="has no price for v5e, on demand, in us-central1, on 202"):
        gapped.between(OFFER, at(start), at(end))


@pytest.mark.parametrize(
    "other", [("v5p", "us-central1", "on_demand"), ("v5e", "us-east1", "on_demand"), ("v5e", "us-central1", "spot")]
)
def test_what_the_book_does_not_have_has_no_price(other: tuple[str, str, str]) -> None:
    with pytest.raises(NoPriceError, match="has no price for"):
        book({"per_chip_hour": 1, "from": "2026-01-01"}).between(
            Offer(other[0], other[1], Purchase(other[2])), at("2026-02-01"), at("2026-02-02")
        )


@given(
    days=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 20)), min_size=1, max_size=6),
    hour=st.integers(-48, 24 * 150),
    length=st.integers(1, 24 * 60),
)
def test_spans_cover_the_time_without_a_gap_or_there_is_no_price(
    days: list[tuple[int, int]], hour: int, length: int
) -> None:
    day, prices, covered = date(2026, 1, 1), [], set()
    for number, (gap, more) in enumerate(days):
        first = day + timedelta(days=gap)
        last = first + timedelta(days=more)
        prices.append({"per_chip_hour": number + 1, "from": f"{first}", "to": f"{last}"})
        covered |= {first + timedelta(days=each) for each in range(more + 1)}
        day = last + timedelta(days=1)
    start = at("2026-01-01") + timedelta(hours=hour)
    end = start + timedelta(hours=length)
    needed = {(start + timedelta(hours=each)).date() for each in range(length)}
    try:
        found = book(*reversed(prices)).between(OFFER, start, end)
    except NoPriceError:
        assert not needed <= covered
        return
    assert needed <= covered
    assert found[0].start == start
    assert found[-1].end == end
    assert all(one.end == other.start for one, other in pairwise(found))


@given(st.dates(), st.none() | st.dates(), st.datetimes(FIRST, LAST, timezones=st.just(UTC)))
@example(date(2026, 1, 1), date.max, datetime(2026, 6, 1, tzinfo=UTC))
@example(date.min, None, datetime(2026, 6, 1, tzinfo=UTC))
def test_a_price_holds_on_its_days_whatever_they_are(first: date, last: date | None, moment: datetime) -> None:
    if last is not None and last < first:
        first, last = last, first
    priced = book({"per_chip_hour": 1, "from": f"{first}", "to": last and f"{last}"})
    if first <= moment.date() and (last is None or moment.date() <= last):
        assert priced.at(OFFER, moment).price == priced.prices[0]
    else:
        with pytest.raises(NoPriceError):
            priced.at(OFFER, moment)


KEY = "60dd2839-3783-5d12-9fe2-c70c3d0218e9"


def row(cost: Any, key: str | None = KEY, label: str = "k8s-label/ml-metrics/run-key", **more: Any) -> dict[str, Any]:
    labels = [{"key": "k8s-namespace", "value": "tests"}, *([{"key": label, "value": key}] if key else [])]
    return {
        "cost": cost, "currency": "USD", "credits": [], "labels": labels,
        "usage_start_time": "2026-11-18T10:00:00Z",
        "usage_end_time": "2026-11-18T11:00:00Z", "location": {"region": "us-central1"},
        "sku": {"id": "A", "description": "TPU"}, **more,
    }  # fmt: skip


ROWS = [
    row(10.105), row("2.005"), row(1.5, credits=[{"name": "CUD", "amount": -0.5}, {"amount": "-0.11"}]),
    row(7, label="ml-metrics/run-key", key="other"), row(3.25, key=None), row(2, key=None, currency="EUR"),
]  # fmt: skip


def as_csv(rows: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(
        {name: json.dumps(value) if isinstance(value, list | dict) else value for name, value in each.items()}
        for each in rows
    )
    return text.getvalue()


@pytest.mark.parametrize("text", [json.dumps(ROWS), "\n".join(map(json.dumps, ROWS)) + "\n", as_csv(ROWS)])
def test_rows_are_attributed_by_the_labels_of_pods_and_credits_are_deducted(text: str) -> None:
    found = read_billing(text, "export")
    assert found.runs == {KEY: {"USD": 1300}, "other": {"USD": 700}}
    assert found.others == {"USD": 325, "EUR": 200}
    assert found.rows == 6


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([row(1), row("NaN")], "export:2: cost: should be a number, not 'NaN'"),
        ([row(True)], "export:1: cost"),
        ([row(None)], "export:1: cost"),
        ([row("1e999")], "export:1: cost"),
        ([row(1, currency="XX")], "export:1: currency: 'XX'"),
        ([row(1, labels="x")], "export:1: labels"),
        ([row(1, credits=[{"amount": "much"}])], "export:1: credits"),
    ],
)
def test_a_row_that_cannot_be_read_is_an_error(rows: list[dict[str, Any]], why: str) -> None:
    with pytest.raises(UnreadableInputError, match=why):
        read_billing("\n".join(map(json.dumps, rows)), "export")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a,b\n1,2\n", "have columns cost and currency"),
        ("{", "is not JSON"),
        ("[1]", "should be an object"),
        ("", "columns"),
    ],
)
def test_another_file_is_an_error(text: str, why: str) -> None:
    with pytest.raises(UnreadableInputError, match=why):
        read_billing(text, "export")
