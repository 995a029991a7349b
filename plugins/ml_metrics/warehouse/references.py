"""What the values of a run are compared with, and the run beside which it is shown and from which a search starts."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from ml_metrics.judge.main_metric import main_metric
from ml_metrics.judge.reference import REFERENCE_RUNS, reference_of
from ml_metrics.warehouse.record import Place

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ml_metrics.judge.reference import Reference
    from ml_metrics.model import StoredMetric
    from ml_metrics.warehouse.warehouse import Warehouse

MAX_METRICS = 100
"""How many metrics of a run have a reference: each is searched for changes of its level."""
AT_ONCE = timedelta(microseconds=1)


def references_of(warehouse: Warehouse, run: Place, rows: Sequence[StoredMetric]) -> dict[str, Reference]:
    """Return the reference of each metric of a run that has one, with a constant number of queries."""
    own = {row.metric: row for row in rows[:MAX_METRICS]}
    until = run.at + AT_ONCE
    since = warehouse.runs.oldest(run.test, REFERENCE_RUNS, until, run.run_key) if own else None
    found: dict[str, list[StoredMetric]] = {name: [] for name in own}
    for row in warehouse.metrics.of_test(run.test, list(own), since, until) if since is not None else ():
        found[row.metric].append(row)
    accepted: dict[str, set[str]] = {name: set() for name in own}
    for one in warehouse.acceptances.of_test(run.test) if own else ():
        accepted.setdefault(one.metric, set()).add(one.run_key)
    references = {name: reference_of(row, found[name], accepted[name]) for name, row in own.items()}
    return {name: reference for name, reference in references.items() if reference is not None}


def good_before(
    warehouse: Warehouse, run: Place, rows: Sequence[StoredMetric], references: Mapping[str, Reference] | None = None
) -> Place | None:
    """Return the good run that a run is compared with: the one before the change of its main metric's level.

    For a run without such a metric, it is the newest that passed before it. `rows` are the metrics that count.
    """
    found = references_of(warehouse, run, rows) if references is None else references
    main = main_metric(rows, found)
    good = found[main.metric].good if main is not None and main.metric in found else None
    if good is not None:
        return Place(good.run_key, run.test, good.timestamp)
    return warehouse.runs.last_passed(run.test, run.at, run.run_key)
