from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.measure import Excerpt, FirstError, stamp_and_line

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def excerpt_of(lines: list[tuple[float, str]], most: int = 10_000) -> Excerpt:
    excerpt = Excerpt(most)
    for seconds, line in lines:
        excerpt.add((AT + timedelta(seconds=seconds)).isoformat(), f"{line}\n")
    return excerpt


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=30)), st.integers(2, 200))
def test_an_excerpt_is_the_log_or_its_two_ends_within_the_limit(lines: list[str], most: int) -> None:
    whole = "".join(f"{line}\n" for line in lines).encode()
    data = excerpt_of([(0, line) for line in lines], most).data()
    if b"bytes are left out" not in data:
        assert data == whole
        return
    head, _, rest = data.partition(b"[... ")
    count, _, tail = rest.partition(b" bytes are left out ...]\n")
    assert whole.startswith(head)
    assert whole.endswith(tail)
    assert len(head) + len(tail) <= most
    assert len(head) + int(count.replace(b",", b"")) + len(tail) == len(whole)


def test_a_long_log_takes_no_more_memory_than_is_kept() -> None:
    excerpt = Excerpt(1000)
    for number in range(10_000):
        excerpt.add("2026-01-02T03:04:05Z", f"line {number}\n")
    data = excerpt.data()
    assert data.startswith(b"line 0\n")
    assert data.endswith(b"line 9999\n")
    assert len(data) < 1100


def test_the_first_error_is_kept_and_not_the_last() -> None:
    lines = [(0.0, "step 1"), (1.0, "RuntimeError: the chip is hot"), (2.0, "ConnectionError: peer is gone")]
    assert excerpt_of(lines).first_error == FirstError(AT + timedelta(seconds=1), "RuntimeError: the chip is hot")


def test_an_error_long_before_the_last_ones_was_expected() -> None:
    lines = [(0.0, "ImportError: no such plugin"), (4000.0, "ValueError: loss is NaN"), (4001.0, "SystemExit: 1")]
    first = excerpt_of(lines).first_error
    assert first is not None
    assert first.text == "ValueError: loss is NaN"


@pytest.mark.parametrize(
    ("raw", "stamp", "line"),
    [
        (b"2026-01-02T03:04:05.123456789Z step 1\n", "2026-01-02T03:04:05.123456789Z", "step 1\n"),
        (b"2026-01-02T03:04:05Z \xff\n", "2026-01-02T03:04:05Z", "\\xff\n"),
        (b"torn", "torn", ""),
    ],
)
def test_a_line_has_the_time_at_which_the_cluster_logged_it(raw: bytes, stamp: str, line: str) -> None:
    assert stamp_and_line(raw) == (stamp, line)


def test_an_error_without_a_time_is_not_counted() -> None:
    excerpt = Excerpt(100)
    excerpt.add("torn", "ValueError: x\n")
    assert excerpt.first_error is None
