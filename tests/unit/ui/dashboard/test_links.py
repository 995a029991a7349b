"""The addresses of pages and the file names of a report."""

from __future__ import annotations

import re

from ml_metrics.ui.dashboard.links import FileLinks, ServerLinks, file_of, http_link
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
