"""The history before a run, whatever the order of its rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.judge.history import EarlierRuns
from unit.judge.cases import DAY, START, TEST, point

if TYPE_CHECKING:
    from ml_metrics.model import StoredMetric

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
