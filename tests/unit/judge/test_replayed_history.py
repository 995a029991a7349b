"""A causal rule runs over each series of a replay once, and finds what it finds run by run."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import accumulate
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.judge import history, replays
from ml_metrics.judge.history import EarlierRuns
from ml_metrics.judge.replays import ReplayedHistory
from unit.judge.cases import START, TEST, point

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Counted:
    """A causal rule: the greatest value so far, plus the parameter of the rule."""

    def __init__(self) -> None:
        self.lengths: list[int] = []

    def __call__(self, values: Sequence[float], rule: float) -> list[float]:
        self.lengths.append(len(values))
        return [rule + greatest for greatest in accumulate(values, max)]


@contextmanager
def followed_by(follow: Counted) -> Iterator[None]:
    with patch.object(history, "followed", follow), patch.object(replays, "followed", follow):
        yield


def asked(values: Sequence[float], starts: Sequence[int], own: Sequence[bool], follow: Counted) -> list[float]:
    """Ask for the level at each run, from a start on, with or without the value of the run itself."""
    earlier: Any = ReplayedHistory([], test=TEST, series={"loss": values})
    found = []
    for number, (value, start, with_own) in enumerate(zip(values, starts, own, strict=True)):
        earlier.begin(f"run-{number:05}", point(number, value).timestamp)
        past = [row.value for row in earlier.rows("loss") if row.value is not None]
        series = [*past, *([value] if with_own else [])][start:]
        if series:
            with followed_by(follow):
                levels, last = earlier.levels("loss", series, 1.0)
            found.append(levels[last])
        earlier.add([point(number, value)])
    return found


def test_a_growing_series_is_followed_twice() -> None:
    follow = Counted()
    values = [float(each % 7) for each in range(100)]
    assert asked(values, [0] * 100, [True] * 100, follow)[-1] == 7.0
    assert follow.lengths == [1, 100]


def test_a_start_that_moves_with_every_run_never_looks_ahead() -> None:
    follow = Counted()
    asked([1.0, 2.0, 3.0, 4.0], [0, 1, 2, 3], [True] * 4, follow)
    assert follow.lengths == [1, 1, 1, 1]


@given(st.data())
def test_the_levels_are_those_of_the_values_alone(data: st.DataObject) -> None:
    values = data.draw(st.lists(st.sampled_from([1.0, 2.0, 3.0]), min_size=1, max_size=20))
    each = {"min_size": len(values), "max_size": len(values)}
    starts = data.draw(st.lists(st.integers(0, 5), **each).map(sorted))
    own = data.draw(st.lists(st.booleans(), **each))
    alone = [
        1.0 + max(values[start : number + with_own])
        for number, (start, with_own) in enumerate(zip(starts, own, strict=True))
        if values[start : number + with_own]
    ]
    assert asked(values, starts, own, Counted()) == alone


def test_values_that_are_not_in_the_replay_are_followed_as_they_are() -> None:
    follow = Counted()
    earlier: Any = ReplayedHistory([], test=TEST, series={"loss": [(1.0, 0), (2.0, 1)]})
    earlier.begin("run", START)
    alone: Any = EarlierRuns([], test=TEST, run_key="run", now=START)
    with followed_by(follow):
        assert earlier.levels("loss", [5.0], 0.0) == ([5.0], 0)
        assert earlier.levels("other", [5.0], 0.0) == ([5.0], 0)
        assert alone.levels("loss", [1.0, 9.0], 0.0) == ([1.0, 9.0], 1)
