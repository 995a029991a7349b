"""The lasting changes of the level of a metric, with the runs in which they begin."""

from __future__ import annotations

import math
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from ml_metrics.core.model import Outcome
from ml_metrics.core.units import quantities
from ml_metrics.judge.baseline import differences
from ml_metrics.judge.bounds import minimum_change
from ml_metrics.judge.wording import is_relative

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from ml_metrics.config.conditions import MinChange
    from ml_metrics.core.model import StoredMetric


@dataclass(frozen=True, slots=True)
class Change:
    """A lasting change of the level of a metric."""

    run_key: str
    """The first run of the new level."""
    timestamp: datetime
    index: int
    """The index of that run among the rows with a finite value, oldest first."""
    before: float
    after: float
    in_noise: float
    """The size of the change as a multiple of the noise of the series."""
    certainty: float
    """The probability that most people would mark such a place as a change of level, rather than nobody."""
    differs: tuple[str, ...] = ()
    """The differences from the run before, for example `image_digest: sha256:a -> sha256:b`."""
    unit: str = ""

    @property
    def percent(self) -> float | None:
        return percent_of(self.before, self.after)

    def __str__(self) -> str:
        return change_sentence(self.before, self.after, self.run_key, self.timestamp, self.differs, unit=self.unit)


def changes_in(
    rows: Iterable[StoredMetric],
    *,
    certainty: float = 0.5,
    min_change: MinChange | None = None,
    attributes: Mapping[str, Mapping[str, str]] | None = None,
) -> list[Change]:
    """The lasting changes of one metric's level, oldest first. Rows without a finite value are skipped.

    `certainty` and `min_change` are the least of each change; `attributes` is what is recorded about each run, by key.
    A metric that was judged relative to another changes with its machine: give `quotients` of its rows.
    """
    from ml_metrics.judge.changepoints import change_points  # imports numpy, which no other rule needs

    rows = list(rows)
    if rows and is_relative(max(rows, key=attrgetter("timestamp", "run_key")).rule):
        return []
    known = [row for row in rows if row.value is not None and row.outcome is not Outcome.NON_FINITE]
    measured = [row for row in sorted(known, key=attrgetter("timestamp", "run_key")) if math.isfinite(row.value or 0.0)]
    found = []
    for step in change_points([row.value for row in measured if row.value is not None], certainty=certainty):
        if abs(step.after - step.before) < minimum_change(min_change, step.before):
            continue
        last, first = measured[step.index - 1 : step.index + 1]
        differs = differences(attributes or {}, last.run_key, first.run_key)
        of_step = (step.index, step.before, step.after, step.in_noise, step.certainty)
        found.append(Change(first.run_key, first.timestamp, *of_step, differs, measured[-1].unit))
    return found


def change_sentence(
    before: float, after: float, run_key: str, timestamp: datetime, differs: Sequence[str], *, unit: str = ""
) -> str:
    where = f", where {', '.join(differs)}" if differs else ""
    return f"the level {way_of(before, after, unit)}, first in run {run_key} of {timestamp:%Y-%m-%d %H:%M}{where}"


def way_of(before: float, after: float, unit: str = "") -> str:
    """Return a change as text: `rose from 100 to 110 (+10 %)`."""
    percent = percent_of(before, after)
    share = "" if percent is None else f" ({percent:+.3g} %)"
    was, now = quantities([before, after], unit)
    return f"{'rose' if after > before else 'fell'} from {was} to {now}{share}"


def percent_of(before: float, after: float) -> float | None:
    """Return a change in percent of the magnitude of the old level; None if that is 0."""
    return None if before == 0 else (after / abs(before) - math.copysign(1.0, before)) * 100
