"""The level of a metric, run by run: the rule `change_point`."""

from ml_metrics.judge.levels.follow import Levels, follow
from ml_metrics.judge.levels.periods import SUSPECTED_RUNS, LevelState
from ml_metrics.judge.levels.rule import LevelRule

__all__ = ["SUSPECTED_RUNS", "LevelRule", "LevelState", "Levels", "follow"]
