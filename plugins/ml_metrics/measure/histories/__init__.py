"""Histories of other systems: Perfherder, HUD and CSV."""

from typing import TYPE_CHECKING

from ml_metrics.core.lazy import on_first_use

if TYPE_CHECKING:
    from ml_metrics.measure.histories.csv import Mapping
    from ml_metrics.measure.histories.history import PastRun, Reading
    from ml_metrics.measure.histories.registry import BY_NAME, Spool, find, runs_of, test_names

__getattr__ = on_first_use(__name__)
