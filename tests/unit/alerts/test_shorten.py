"""A message stays small, whatever a run holds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_metrics.alerts.channels.mail import as_mail
from ml_metrics.alerts.compose import compose, cut, pictures_that_fit
from ml_metrics.alerts.message import Fact, Log, Picture, Problem
from unit.alerts.reports import LOSS, REPORT

MAX_MAIL = 500_000
LETTERS = st.sampled_from(["x", "=", '"', "<", "é", "観", "\U0001f525"])


def size(text: str, number: int, lines: int = 20) -> int:
    """Return the size of the mail about a run in which everything is long, and there is much of it."""
    fact = Fact("a name", text, f"https://logs.example/?q={'x' * min(len(text), 5000)}")
    picture = Picture("metric-1", b"\x89PNG" * 20_000, text)
    problem = Problem(f"out_of_bounds:{text}", text, text, (fact,) * 20, picture, Log(text, (text,) * lines, text))
    report = replace(
        REPORT,
        test=text,
        problems=(problem,) * number,
        warned=(problem,) * number,
        facts=(fact,) * 20,
        suspects=(text,) * number,
        warnings=(text,) * number,
        commands=(fact,) * 5,
        first=text,
        sentences=(text,) * 5,
        buttons=(fact, fact),
    )
    return len(as_mail(compose(report, ["a@example.com"])).as_bytes())


@settings(max_examples=25, deadline=None)
@given(LETTERS, st.integers(1, 20_000), st.integers(0, 120), st.integers(0, 2000))
def test_a_mail_is_small(letter: str, length: int, number: int, lines: int) -> None:
    assert size(letter * length, number, lines) < MAX_MAIL


def test_twenty_thousand_metrics_are_counted_and_the_worst_are_listed() -> None:
    problems = tuple(replace(LOSS, name=f"out_of_bounds:{number}", picture=None) for number in range(100))
    counted = ("19,990 out of bounds", "10 missing")
    message = compose(replace(REPORT, problems=problems, warned=(), counted=counted, total=20_000), [])
    assert "and 19,980 more; in all 19,990 out of bounds, 10 missing. The page of the run lists them." in message.text
    assert message.html.count("must be below") == 20
    assert len(message.reasons) == 101
    assert message.reasons[-1].sentence == "and 19,900 more"
    assert message.subject.endswith("(+19,999 more)")


def test_an_address_is_never_cut() -> None:
    fact = Fact("a" * 100, "b" * 100, "https://x.example/" + "c" * 100)
    short = cut(fact, 10)
    assert (short.name, short.value, short.link) == ("aaaaaaaaa…", "bbbbbbbbb…", fact.link)


@pytest.mark.parametrize(("sizes", "kept"), [([10, 10], 2), ([150_001, 10], 1), ([1] * 9, 6)])
def test_pictures_that_are_too_large_are_left_out(sizes: list[int], kept: int) -> None:
    pictures = [Picture(f"metric-{number}", b"x" * each, "") for number, each in enumerate(sizes)]
    assert len(pictures_that_fit(pictures)) == kept
