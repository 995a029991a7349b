"""Numbers to verdicts: bounds, levels, change points, curves, calibration, comparison, bisection.

docs/conditions.md documents each rule.
"""

from typing import TYPE_CHECKING

from ml_metrics.core.lazy import on_first_use

if TYPE_CHECKING:
    from ml_metrics.judge.budget import chance, limit_of, strength
    from ml_metrics.judge.calibration import WITHIN_RUNS, CalibratedRule, Calibration, calibrate, calibrate_curve
    from ml_metrics.judge.changepoints import change_points
    from ml_metrics.judge.changes import (
        FIRST_ATTRIBUTES,
        SECRET_NAME,
        Change,
        change_text,
        changed,
        changes_in,
        differences,
        without_unique,
    )
    from ml_metrics.judge.history import (
        BY_TIME,
        Acceptance,
        CurvesOfRuns,
        HistoryNeeds,
        history_needs,
        in_baseline,
        in_newest_units,
        is_measured,
        recent_rows,
        worse_side,
    )
    from ml_metrics.judge.judgement import Alert, ConfirmingRun, Judgement, confirming_run, origin_of, run_again
    from ml_metrics.judge.noise import KNOWN_RUNS
    from ml_metrics.judge.probe import Probe, State
    from ml_metrics.judge.reference import REFERENCE_RUNS, Reference, distance, main_metric, reference_of
    from ml_metrics.judge.relative import quotients
    from ml_metrics.judge.replays import (
        RUNS_TO_FIND,
        ComparedRules,
        Finding,
        Replay,
        ReplayedRun,
        RuleOnMetric,
        compare_rules,
        replay,
    )
    from ml_metrics.judge.run import judge_run
    from ml_metrics.judge.siblings import Sibling
    from ml_metrics.judge.together import Movement, attributes_shared, movements, places, position
    from ml_metrics.judge.unfit_conditions import SILENT_RUNS, Undecided, misfits, runs_to_read, undecided, unfit
    from ml_metrics.judge.wording import LEVEL_RULE_IN_SQL, is_level, rule_of, violation

__getattr__ = on_first_use(__name__)
