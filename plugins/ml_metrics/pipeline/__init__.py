"""The steps of a run and of an experiment, and which runs are kept: what operators call, without Airflow."""

from typing import TYPE_CHECKING

from ml_metrics.core.lazy import on_first_use

if TYPE_CHECKING:
    from ml_metrics.pipeline.patience import first_delay, has_tries_left, longest_patience, retry_options
    from ml_metrics.pipeline.retention import (
        MAX_DAYS,
        RUN,
        Ages,
        Choice,
        Needed,
        Remover,
        StoredExperiments,
        StoredRun,
        StoredRuns,
        bring_back_all,
        choose,
        old_rows,
        prune,
    )
    from ml_metrics.pipeline.run_state import RunState, bring_back
    from ml_metrics.pipeline.steps import CONFIRM_RUN, attributes_of

__getattr__ = on_first_use(__name__)
