"""Comparisons and searches whose runs are trials in Airflow: their next steps, without Airflow."""

from typing import TYPE_CHECKING

from ml_metrics.core.lazy import on_first_use

if TYPE_CHECKING:
    from ml_metrics.pipeline.experiments.comparison import Comparison
    from ml_metrics.pipeline.experiments.journal import (
        EXPERIMENTS_FOLDER,
        Journal,
        Listed,
        dag_of,
        experiments,
        open_journal,
        question_of,
        read_result,
        test_of,
    )
    from ml_metrics.pipeline.experiments.own_searches import (
        SEARCHES_FOLDER,
        is_own,
        own_search,
        remember,
        running_search,
    )
    from ml_metrics.pipeline.experiments.request import check_version, comparison_of, search_of
    from ml_metrics.pipeline.experiments.run_ids import (
        BISECT,
        COMPARE,
        DECIDE,
        again_run_id,
        experiment_of,
        question_run_id,
        run_id_of,
    )
    from ml_metrics.pipeline.experiments.search import TestSearch
    from ml_metrics.pipeline.experiments.trial import TrialRun, conf_of, node_of, trial_run, trial_that
    from ml_metrics.pipeline.experiments.versions import (
        IMAGE,
        MOST_CANDIDATES,
        Candidates,
        Places,
        Source,
        Span,
        candidates_of,
        values_of,
        versions_between,
    )

    Experiment = Comparison | TestSearch

__getattr__ = on_first_use(__name__)
