"""Judges a run by its conditions and its history. `docs/semantics.md` documents each rule."""

from typing import TYPE_CHECKING

from ml_metrics.core.lazy import imported_on_first_use

if TYPE_CHECKING:
    from ml_metrics.judge.baseline import HistoryNeeds, history_needs
    from ml_metrics.judge.history import Acceptance
    from ml_metrics.judge.judgement import Alert, AlertKind, Judgement
    from ml_metrics.judge.level_changes import Change, changes_in
    from ml_metrics.judge.replays import Replay, ReplayedRun, replay
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

_HOMES = {
    "Acceptance": "ml_metrics.judge.history",
    "Alert": "ml_metrics.judge.judgement",
    "AlertKind": "ml_metrics.judge.judgement",
    "Change": "ml_metrics.judge.level_changes",
    "HistoryNeeds": "ml_metrics.judge.baseline",
    "Judgement": "ml_metrics.judge.judgement",
    "Replay": "ml_metrics.judge.replays",
    "ReplayedRun": "ml_metrics.judge.replays",
    "changes_in": "ml_metrics.judge.level_changes",
    "history_needs": "ml_metrics.judge.baseline",
    "judge_run": "ml_metrics.judge.run",
    "replay": "ml_metrics.judge.replays",
}
__getattr__ = imported_on_first_use(__name__, _HOMES)
