"""Two versions of a test compared: how many runs, in which order, and what they say."""

from typing import TYPE_CHECKING

from ml_metrics.core.lazy import on_first_use

if TYPE_CHECKING:
    from ml_metrics.judge.compare.answer import (
        Answer,
        Compared,
        cells,
        compare_repeats,
        document,
        escaped,
        junit,
        markdown,
        multiplicity,
        summary,
    )
    from ml_metrics.judge.compare.curves import ValueOrCurve, curve_of
    from ml_metrics.judge.compare.plan import (
        BASE,
        BLOCK,
        CANDIDATE,
        MeasuredRun,
        Plan,
        Step,
        answers,
        apart,
        changed_at,
        expectation,
        next_step,
        note_of_change,
        notes_of_failures,
        notes_of_hosts,
    )
    from ml_metrics.judge.compare.two_runs import MOST_RUNS, compared_curves_of_runs, compared_runs

__getattr__ = on_first_use(__name__)
