"""Query parameters: spans of days, choices and numbers, from untrusted addresses."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from ml_metrics.ui.dashboard.links import BadQueryError, choice, required, span_of, text, whole_number

NOW = datetime(2026, 3, 31, 23, 30, tzinfo=UTC)


def test_the_default_span_is_the_newest_days_in_utc() -> None:
    span = span_of({}, NOW)
    assert (span.first, span.last, span.days, span.is_utc) == (date(2026, 3, 2), date(2026, 3, 31), 30, True)


def test_days_start_at_midnight_of_their_time_zone() -> None:
    span = span_of({"tz": "Europe/Berlin", "since": "2026-03-29"}, NOW)
    assert (span.first, span.last) == (date(2026, 3, 29), date(2026, 4, 1))
    assert span.since == datetime(2026, 3, 28, 23, tzinfo=UTC)
    assert span.until == datetime(2026, 4, 1, 22, tzinfo=UTC)  # summer time began on the first day
    assert span.newest(2).first == date(2026, 3, 31)


@pytest.mark.parametrize(
    "query",
    [
        {"since": "2026-13-01"},
        {"until": "2026-03-01", "since": "2026-03-02"},
        {"tz": "Nowhere"},
        {"tz": "../../etc/passwd"},
        {"tz": "x" * 1000},
        {"since": "x" * 301},
    ],
)
def test_a_bad_span_is_rejected(query: dict[str, str]) -> None:
    with pytest.raises(BadQueryError):
        span_of(query, NOW)


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "101", "", "٣", "1e1"])
def test_a_whole_number_has_limits(value: str) -> None:
    if value:
        with pytest.raises(BadQueryError, match="is not a number between 1 and 100"):
            whole_number({"n": value}, "n", 7, 100)
    else:
        assert whole_number({"n": value}, "n", 7, 100) == 7


def test_text_and_choices() -> None:
    assert text({}, "q") == ""
    assert choice({"by": "runs"}, "by", ("days", "runs")) == "runs"
    assert choice({}, "by", ("days", "runs")) == "days"
    with pytest.raises(BadQueryError, match="'weeks' is not one of days, runs"):
        choice({"by": "weeks"}, "by", ("days", "runs"))
    with pytest.raises(BadQueryError, match="The parameter test is missing"):
        required({"test": ""}, "test")
