"""The lasting changes of the level of a metric, with the runs in which they begin and what differs there."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ml_metrics.config.conditions import MinChange
from ml_metrics.core.model import Outcome, StoredMetric
from ml_metrics.core.units import quantities
from ml_metrics.core.values import short_digests
from ml_metrics.judge.bounds import minimum_change
from ml_metrics.judge.history import BY_TIME, in_newest_units
from ml_metrics.judge.wording import is_relative


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
    """The differences from the run before, for example `image_digest: sha256:a → sha256:b`."""
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
    if rows and is_relative(max(rows, key=BY_TIME).rule):
        return []
    known = [row for row in rows if row.value is not None and row.outcome is not Outcome.NON_FINITE]
    measured = in_newest_units([row for row in sorted(known, key=BY_TIME) if math.isfinite(row.value or 0.0)])
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
    """A change as text: `rose from 100 to 110 (+10 %)`."""
    percent = percent_of(before, after)
    share = "" if percent is None else f" ({percent:+.3g} %)"
    was, now = quantities([before, after], unit)
    return f"{'rose' if after > before else 'fell'} from {was} to {now}{share}"


def percent_of(before: float, after: float) -> float | None:
    """A change in percent of the magnitude of the old level; None if that is 0."""
    return None if before == 0 else (after / abs(before) - math.copysign(1.0, before)) * 100


HIDDEN_KEYS = frozenset({"env", "secrets", "params"})
"""Keys of a test file whose values may be secret."""
SECRET_NAME = re.compile(
    r"token(?!s|iz)|(?:api|auth|access).?tokens|secret|passw|credential|api.?key|private.?key", re.IGNORECASE
)
"""Names of attributes whose values may be secret."""
MAX_LENGTH, MAX_DIFFERENCES = 80, 8
FIRST_ATTRIBUTES = ("image", "image_digest", "node_type", "accelerator", "framework")
"""Named before all others."""
OF_THE_START = frozenset({*FIRST_ATTRIBUTES, "node_pool", "zone", "cluster"})
"""What the definition of a run determines, besides its parameters and the keys of its test file."""
PLACED = frozenset({"node", "nodes"})
"""Where the scheduler put a run: mostly elsewhere than the run before."""


def changed(before: Mapping[str, object], after: Mapping[str, object]) -> list[tuple[str, object, object]]:
    """What changed between two runs: the name and both values of each attribute, the most telling first.

    A run that failed early wrote fewer attributes: only what its start determines counts where one run lacks it.
    Nothing, if one of the runs is unknown.
    """
    if not before or not after:
        return []
    order = {name: place for place, name in enumerate(FIRST_ATTRIBUTES)}
    names = [
        name
        for name in {*before, *after} - PLACED
        if (before.get(name) or "") != (after.get(name) or "")
        and (name in OF_THE_START or name.startswith(("param.", "test file ")) or (name in before and name in after))
    ]
    names.sort(key=lambda name: (order.get(name, len(order)), name))
    return [(name, before.get(name), after.get(name)) for name in names]


def differences(attributes: Mapping[str, Mapping[str, str]], before: str, after: str) -> tuple[str, ...]:
    """What changed between two runs, as texts."""
    found = changed(attributes.get(before) or {}, attributes.get(after) or {})
    texts = [change_text(*one) for one in found[:MAX_DIFFERENCES]]
    more = len(found) - MAX_DIFFERENCES
    return (*texts, f"{more} more") if more > 0 else tuple(texts)


def change_text(name: str, before: object, after: object) -> str:
    """A change as text: `image: a → b`; without the values if they may be secret."""
    if name.removeprefix("test file ") in HIDDEN_KEYS or SECRET_NAME.search(name):
        return f"{name} (values not shown)"
    shown = []
    for value in (before, after):
        text = short_digests(" ".join(str("none" if value in (None, "") else value).split()))
        shown.append(text if len(text) <= MAX_LENGTH else f"{text[: MAX_LENGTH - 1]}…")
    return f"{name}: {shown[0]} → {shown[1]}"


def without_unique(attributes: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    """Attributes without those that have another value in each of five runs or more: they only name the run."""
    values: dict[str, list[str]] = {}
    for of_run in attributes.values():
        for name, value in of_run.items():
            values.setdefault(name, []).append(value)
    kept = {name for name, each in values.items() if len(set(each)) < len(each) or len(each) < 5}
    kept.update(FIRST_ATTRIBUTES)
    return {run: {k: v for k, v in of_run.items() if k in kept} for run, of_run in attributes.items()}
