"""The history before a run, whatever the order of its rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.judge import Acceptance
from ml_metrics.judge.history import EarlierRuns
from unit.judge.cases import DAY, START, TEST, point

if TYPE_CHECKING:
    from ml_metrics.core.model import StoredMetric

NOW = START + 12 * DAY
ORDERED = st.lists(st.integers(0, 15), unique=True).map(
    lambda days: [point(day, 1.0, run=f"run-{day}") for day in sorted(days)]
)
ROWS = st.lists(
    st.builds(
        point,
        st.integers(0, 15),
        st.just(1.0),
        metric=st.sampled_from(["loss", "speed", ""]),
        status=st.sampled_from(["success", "failure"]),
        run=st.sampled_from(["", "a", "this"]),
        test=st.sampled_from([TEST, "", "other"]),
    )
)


def earlier(rows: list[StoredMetric]) -> EarlierRuns:
    return EarlierRuns(rows, test=TEST, run_key="this", now=NOW)


@given(ORDERED)
def test_rows_in_order_are_those_before_the_run(rows: list[StoredMetric]) -> None:
    expected = [row for row in rows if (row.timestamp, row.run_key) < (NOW, "this")]
    assert earlier(rows).rows("loss") == expected
    assert earlier(rows[::-1]).rows("loss") == expected


@given(ROWS, st.booleans())
def test_each_earlier_run_is_there_once_with_its_newest_row(rows: list[StoredMetric], naive: bool) -> None:
    given_rows = [replace(row, timestamp=row.timestamp.replace(tzinfo=None)) for row in rows] if naive else rows
    own = [row for row in rows if row.test != "other" and row.run_key != "this"]
    newest = {key: max(row.timestamp for row in own if row.run_key == key) for key in {row.run_key for row in own}}
    expected = sorted((when, key) for key, when in newest.items() if (when, key) < (NOW, "this"))
    found = earlier(given_rows).runs
    assert [(row.timestamp, row.run_key) for row in found] == expected
    for run in found:
        failed = {row.job_status for row in own if (row.run_key, row.timestamp) == (run.run_key, run.timestamp)} - {
            "success"
        }
        assert (run.job_status != "success") == bool(failed)


@given(ROWS)
def test_the_order_of_the_rows_does_not_matter(rows: list[StoredMetric]) -> None:
    for metric in ("loss", "speed"):
        one, other = (earlier(each).rows(metric) for each in (rows, rows[::-1]))
        assert [(row.run_key, row.timestamp) for row in one] == [(row.run_key, row.timestamp) for row in other]


def accepted(*acceptances: Acceptance, rows: list[StoredMetric], run: str = "now", day: float = 12) -> object:
    return EarlierRuns(rows, acceptances, test=TEST, run_key=run, now=START + day * DAY).accepted("loss")


def acceptance(run: str, day: float, **rest: object) -> Acceptance:
    return replace(Acceptance(TEST, "loss", run, START + day * DAY), **rest)


def test_the_newest_accepted_level_counts_from_the_end_of_its_run() -> None:
    rows = [point(day, 1.0, run=f"run-{day}") for day in range(8)]
    one, other = acceptance("run-3", 9), acceptance("run-5", 8)
    assert accepted(one, rows=rows) == ((START + 3 * DAY, "run-3"), START + 9 * DAY)
    assert accepted(one, other, rows=rows) == accepted(other, one, rows=rows)
    assert accepted(one, other, rows=rows) == ((START + 5 * DAY, "run-5"), START + 8 * DAY)
    assert accepted(rows=rows) is None
    for stranger in (replace(one, metric="acc"), replace(one, test="another")):
        assert accepted(stranger, rows=rows) is None
    assert accepted(replace(one, test=""), rows=rows) == accepted(one, rows=rows)


def test_an_acceptance_of_a_later_run_does_not_count() -> None:
    rows = [point(day, 1.0, run=f"run-{day}") for day in range(8)]
    one = acceptance("run-5", 9)
    assert accepted(one, rows=rows, day=4.9) is None
    assert accepted(one, rows=rows, run="run-4", day=5) is None
    assert accepted(one, rows=rows, run="run-6", day=5) == ((START + 5 * DAY, "run-5"), START + 9 * DAY)
    assert accepted(one, rows=rows, run="run-5", day=4) == ((START + 4 * DAY, "run-5"), START + 9 * DAY)


def test_the_end_of_an_accepted_run_is_stated_or_that_of_its_rows_or_the_acceptance() -> None:
    metric, other = point(3, 1.0, run="run"), point(4, 1.0, run="run", metric="acc")
    elsewhere = point(6, 1.0, run="run", metric="acc", test="another")
    for rows, rest, day in (
        ([metric, other], {}, 3),
        ([metric, point(3.5, 1.0, run="run"), other], {}, 3.5),
        ([other, elsewhere], {}, 4),
        ([elsewhere], {}, 9),
        ([metric, other], {"timestamp": START + 2 * DAY}, 2),
    ):
        assert accepted(acceptance("run", 9, **rest), rows=rows) == ((START + day * DAY, "run"), START + 9 * DAY)


def test_the_newest_row_of_each_run_says_how_it_ended_and_of_equal_ones_the_failure() -> None:
    rows = [
        point(1, 1.0, run="a", status="failure"),
        point(2, 1.0, run="a", metric="acc"),
        point(3, 1.0, run="b"),
        point(3, 1.0, run="b", metric="acc", status="timeout"),
        point(4, 1.0, run="c", test="another"),
        point(0, 1.0, run="d", metric=""),
    ]
    earlier = EarlierRuns(rows, test=TEST, run_key="now", now=NOW)
    assert [(row.run_key, str(row.job_status)) for row in earlier.runs] == [
        ("d", "success"), ("a", "success"), ("b", "timeout")
    ]  # fmt: skip
    assert earlier.metrics() == ["acc", "loss"]
