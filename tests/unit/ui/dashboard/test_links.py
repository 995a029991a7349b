"""The addresses of pages and the file names of a report."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime

from ml_metrics.ui.dashboard.links import FileLinks, ServerLinks, file_of, http_link, span_of
from unit.ui.dashboard.sample_runs import HOSTILE_NAMES, STEADY, run_of


def test_every_name_has_a_file_of_its_own() -> None:
    names = [file_of(name) for name in [*HOSTILE_NAMES, "a"]]
    assert len({name.lower() for name in names}) == len(names)
    assert all(re.fullmatch(r"test-[a-z0-9._-]{1,100}\.html", name) for name in names)


def test_a_run_of_a_report_is_a_row_of_its_tests_page() -> None:
    assert FileLinks().run(run_of(STEADY, 0).key, STEADY) == f"test-{STEADY}.html#run-{run_of(STEADY, 0).key}"


def test_an_address_has_only_the_parameters_that_are_set() -> None:
    assert ServerLinks().tests(q="", by="runs") == "./?by=runs"
    assert ServerLinks().test("a b&c") == "test?test=a+b%26c"


def test_a_link_of_a_row_is_http_or_nothing() -> None:
    links = ["https://a.example", "HTTP://a.example", "javascript:alert(1)", "data:x", "//a.example", "", None]
    assert [http_link(link) for link in links] == ["https://a.example", "HTTP://a.example", "", "", "", "", ""]


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
