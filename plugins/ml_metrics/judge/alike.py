"""Runs that are comparable because the attributes that a condition names are the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ml_metrics.config.regression import Condition
    from ml_metrics.judge.history import EarlierRuns
    from ml_metrics.model import StoredMetric

LEAST_RUNS = 9
"""How many comparable runs suffice if the condition does not state it."""


def alike(rows: Sequence[StoredMetric], condition: Condition, earlier: EarlierRuns) -> tuple[list[StoredMetric], str]:
    """Return the rows of comparable runs, and a note for the reason; all rows if too few are comparable."""
    rows = list(rows)
    if condition.baseline is None or not rows:
        return rows, ""
    own = earlier.attributes.get(earlier.run_key) or {}
    unknown = [name for name in condition.baseline.same if not own.get(name)]
    if unknown:
        return rows, f"{', '.join(unknown)} of this run is not recorded: compared with all"
    wanted = {name: own[name] for name in condition.baseline.same}
    found = [row for row in rows if wanted.items() <= (earlier.attributes.get(row.run_key) or {}).items()]
    waits = (condition.wait_for_n_points_of_history or 0) > 0
    needed = condition.fewest_runs if waits else max(LEAST_RUNS, condition.fewest_runs)
    where = " and ".join(f"{name.replace('_', ' ')} {value}" for name, value in wanted.items())
    if len(found) < needed:
        return rows, f"{len(found)} of {needed} runs on {where}: compared with all"
    return found, f"compared with runs on {where}"
