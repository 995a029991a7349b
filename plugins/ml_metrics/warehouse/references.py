"""What the values of a run are compared with, and the run beside which it is shown and from which a search starts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from ml_metrics.core.model import BROKEN, SWEEP, JobStatus, Outcome
from ml_metrics.judge import BY_TIME, REFERENCE_RUNS, main_metric, reference_of
from ml_metrics.warehouse.record import Place

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence
    from datetime import datetime

    from ml_metrics.core.model import StoredMetric, Sweep
    from ml_metrics.judge import Reference
    from ml_metrics.warehouse.warehouse import Warehouse


MAX_METRICS = 100
"""How many metrics of a run have a reference: each is searched for changes of its level."""
AT_ONCE = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class KnownLevels:
    """The newest values of some metrics of a test, which show what a value is compared with."""

    values: Mapping[str, Sequence[StoredMetric]]
    accepted: Mapping[str, Container[str]]
    """The runs at accepted levels, by metric."""

    @classmethod
    def load(
        cls, warehouse: Warehouse, test: str, metrics: Sequence[str], until: datetime, exclude: str = "", more: int = 0
    ) -> KnownLevels:
        """Read the runs of a test before a time, `more` than one value needs, with a constant number of queries."""
        values: dict[str, list[StoredMetric]] = {name: [] for name in metrics}
        since = warehouse.runs.oldest(test, REFERENCE_RUNS + more, until, exclude) if metrics else None
        for row in warehouse.metrics.of_test(test, list(values), since, until) if since is not None else ():
            values[row.metric].append(row)
        accepted: dict[str, set[str]] = {name: set() for name in metrics}
        for one in warehouse.acceptances.of_test(test) if metrics else ():
            accepted.setdefault(one.metric, set()).add(one.run_key)
        return cls(values, accepted)

    def references(self, rows: Iterable[StoredMetric]) -> dict[str, Reference]:
        known = (row for row in rows if row.metric in self.values)
        found = {row.metric: reference_of(row, self.values[row.metric], self.accepted[row.metric]) for row in known}
        return {name: reference for name, reference in found.items() if reference is not None}


def references_of(warehouse: Warehouse, run: Place, rows: Sequence[StoredMetric]) -> dict[str, Reference]:
    """The reference of each of the first metrics of a run."""
    names = [row.metric for row in rows[:MAX_METRICS]]
    return KnownLevels.load(warehouse, run.test, names, run.at + AT_ONCE, run.run_key).references(rows)


def good_before(
    warehouse: Warehouse, run: Place, rows: Sequence[StoredMetric], references: Mapping[str, Reference] | None = None
) -> Place | None:
    """The good run that a run is compared with: the one before the change of its main metric's level.

    For a run without such a metric, it is the newest that passed before it. `rows` are the metrics that count.
    """
    found = references_of(warehouse, run, rows) if references is None else references
    main = main_metric(rows, found)
    good = found[main.metric].good if main is not None and main.metric in found else None
    if good is not None:
        return Place(good.run_key, run.test, good.timestamp)
    return warehouse.runs.last_passed(run.test, run.at, run.run_key)


RUNS_BESIDE = 20
"""How many runs are beside a curve."""


def curves_before(warehouse: Warehouse, run: Place, rows: Sequence[StoredMetric]) -> dict[str, list[Sweep]]:
    """By metric, the curves of the newest good runs: those before a run, or before the loss that is open in it.

    `rows`: the curves of the run that are judged.
    """
    known = KnownLevels.load(warehouse, run.test, [row.metric for row in rows], run.at + AT_ONCE, run.run_key)
    references, good = known.references(rows), {}
    for row in rows:
        reference = references.get(row.metric)
        since = reference.since if reference and row.outcome is Outcome.FAIL else None
        values = [one for one in known.values[row.metric] if one.trial is None and BY_TIME(one) < BY_TIME(since or row)]
        passed = [one for one in values if one.job_status is JobStatus.SUCCESS and one.outcome not in BROKEN]
        good[row.metric] = {one.run_key: one.timestamp for one in sorted(passed, key=BY_TIME)[-RUNS_BESIDE:]}
    ends = {key: at for runs in good.values() for key, at in runs.items()}
    names = [metric.removeprefix(SWEEP) for metric in good]
    found = warehouse.curves.sweeps_of_runs(list(ends), names, tests=[run.test], ends=ends) if ends else {}
    return {
        metric: [found[key, name] for key in runs if (key, name) in found]
        for name, (metric, runs) in zip(names, good.items(), strict=True)
    }
