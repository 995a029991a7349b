"""Journals of comparisons and searches, as their tasks leave them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from unittest import mock

from ml_metrics.core.model import Run
from ml_metrics.judge.bisect import Search
from ml_metrics.judge.compare import Plan
from ml_metrics.pipeline.experiments import BISECT, COMPARE, Journal, TestSearch, TrialRun, open_journal
from ml_metrics.pipeline.experiments import journal as journals
from ml_metrics.pipeline.experiments.comparison import Comparison
from ml_metrics.pipeline.experiments.journal import Result

COMPARED = Comparison("t", "image", "app:1", "app:2", Plan(2.0, 60))
SEARCHED = TestSearch("u", "image", "loss", Search(("a", "b", "c"), 30))


def store_journal(
    root: str, run_id: str, days: float, asked: Comparison | TestSearch = COMPARED, *, failed: bool | None = False
) -> Journal:
    """Write the journal of an experiment that ended so many days ago, after a day; `failed` is None: it never ended."""
    dag_id = COMPARE if isinstance(asked, Comparison) else BISECT
    ended = datetime.now(UTC).replace(microsecond=0) - timedelta(days=days)
    with mock.patch.object(journals, "_now", side_effect=[ended - timedelta(days=1)] * 2 + [ended] * 2):
        journal = open_journal(root, Run(dag_id, dag_id, run_id, "local").key, asked.question())
        journal = journal.add(TrialRun("app:1", values={"loss": 1.0}))
        if failed is not None:
            journal.write(Result("t", "an answer", failed=failed))
    return journal
