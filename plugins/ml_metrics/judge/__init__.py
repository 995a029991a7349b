"""Judges a run by its conditions and its history. `docs/semantics.md` documents each rule."""

from ml_metrics.judge.baseline import HistoryNeeds, history_needs
from ml_metrics.judge.history import Acceptance
from ml_metrics.judge.judgement import Alert, AlertKind, Judgement
from ml_metrics.judge.level_changes import Change, changes_in
from ml_metrics.judge.replay import Replay, ReplayedRun, replay
from ml_metrics.judge.run import judge_run

__all__ = [
    "Acceptance",
    "Alert",
    "AlertKind",
    "Change",
    "HistoryNeeds",
    "Judgement",
    "Replay",
    "ReplayedRun",
    "changes_in",
    "history_needs",
    "judge_run",
    "replay",
]
