"""The metrics of a test's page before any chart is drawn: their newest values, in groups, the judged ones first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ml_metrics.dashboard.chart_data import is_time_part
from ml_metrics.kinds import kind_of
from ml_metrics.model import BROKEN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ml_metrics.dashboard.chart_data import Curve
    from ml_metrics.model import StoredMetric
    from ml_metrics.warehouse.metrics import NamedMetric

JUDGED, TIME, OTHER = "With a condition", "Time and cost", "Other metrics"
FIRST_GROUPS = (JUDGED, TIME)


@dataclass(frozen=True, slots=True)
class Head:
    """One metric of the page."""

    number: int
    """Its place on the page, which names its chart."""
    metric: str
    newest: StoredMetric | None
    """Its value in the newest run that has metrics."""
    curve: Curve | None = None
    """All of its values, where the page has them."""

    @property
    def broken(self) -> bool:
        """Whether it failed in that run."""
        return self.newest is not None and self.newest.outcome in BROKEN

    @property
    def rule(self) -> str:
        """The condition as text; empty if there is none."""
        return (self.curve.rule if self.curve else "") or (self.newest.rule if self.newest else "") or ""


@dataclass(frozen=True, slots=True)
class Group:
    """Metrics below one heading."""

    title: str
    unit: str
    heads: tuple[Head, ...]


def heads_of(metrics: Iterable[str], newest: Mapping[str, StoredMetric], curves: Iterable[Curve] = ()) -> list[Head]:
    """Return the metrics of a page in their order. With curves, each has its own newest value."""
    by_name = {curve.metric: curve for curve in curves}
    heads = []
    for number, name in enumerate(metrics):
        curve = by_name.get(name)
        heads.append(Head(number, name, curve.newest if curve else newest.get(name), curve))
    return heads


def groups_of(heads: Sequence[Head], judged: Mapping[str, NamedMetric]) -> list[Group]:
    """Return the groups: metrics with a condition first, then time and cost, then by the first part of the names."""
    found: dict[str, list[Head]] = {}
    for head in heads:
        found.setdefault(_title(head, judged), []).append(head)
    titles = [*(one for one in FIRST_GROUPS if one in found), *(one for one in found if one not in FIRST_GROUPS)]
    return [Group(title, _unit(found[title]), tuple(found[title])) for title in titles]


def is_folded(name: str, named: NamedMetric) -> bool:
    """Whether a metric is only named: each of its values is 0, and nothing judges it."""
    return named.always_zero and (not named.judged or is_time_part(name))


def _title(head: Head, judged: Mapping[str, NamedMetric]) -> str:
    is_judged = head.rule or (head.metric in judged and judged[head.metric].judged)
    if is_judged and (head.broken or not is_time_part(head.metric)):
        return JUDGED
    if is_time_part(head.metric) or kind_of(head.metric).generated:
        return TIME
    first, slash, _ = head.metric.partition("/")
    return first if slash and first else OTHER


def _unit(heads: Iterable[Head]) -> str:
    """Return the unit that all metrics of a group have; empty if they have several or one has none."""
    units = {head.newest.unit if head.newest else kind_of(head.metric).unit for head in heads}
    return units.pop() if len(units) == 1 else ""
