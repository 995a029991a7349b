"""`goodput`: whether and how the useful share of a job's time is measured."""

from __future__ import annotations

from ml_metrics.spec.duration import Duration
from ml_metrics.spec.strict import Strict


class GoodputConfig(Strict):
    """How goodput is measured. A run that wrote no `goodput.jsonl` has none, and nothing is wrong with that."""

    enabled: bool = True
    """Whether goodput is measured."""
    ideal_step_time: Duration | None = None
    """What a step should take; computed from the steps where it is not given."""
    rolling_windows: tuple[Duration, ...] = ()
    """Goodput of the last hour, day, ... besides that of the whole job."""
