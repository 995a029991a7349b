"""The task that starts a search for the version that broke a metric, if the test asks for it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ml_metrics.airflow_versions import AirflowSkipException, is_paused, run_to_trigger
from ml_metrics.connections import warehouse
from ml_metrics.errors import ConfigError
from ml_metrics.experiments.run_ids import BISECT
from ml_metrics.operators.tasks import TestTask, run_of
from ml_metrics.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

SEARCH_CAUSE = "search_cause"
ACTIVE = ["queued", "running"]


class SearchCause(TestTask):
    """Start one search for each change, and none while another for the same test or the same versions is running."""

    def perform(self, context: Mapping[str, Any]) -> str:
        """Start the search. It has the same run id for every run that the change breaks, so it is started once."""
        from ml_metrics.experiments.own_search import own_search, remember, running_search

        state, ti = self.state(context), context["ti"]
        if state.trial:
            raise AirflowSkipException("a trial starts no search")
        if self.test.quarantine is not None and self.test.quarantine.holds(datetime.now(UTC)):
            raise AirflowSkipException("the test is quarantined")
        verdicts = state.judgement.verdicts if state.judgement else ()
        root = Settings.load().storage_root
        try:
            with warehouse() as open_warehouse:
                search = own_search(self.test, run_of(self.test.name, context).key, verdicts, open_warehouse)
        except ConfigError as error:
            raise AirflowSkipException(f"no search is started: {error}") from error

        def is_active(run_id: str) -> bool:
            return bool(ti.get_dr_count(dag_id=BISECT, run_ids=[run_id], states=ACTIVE))

        if other := running_search(root, search, is_active):
            raise AirflowSkipException(f"no search is started while {other} is running")
        if is_paused(ti, BISECT):
            raise AirflowSkipException(f"no search is started: the DAG {BISECT} is paused")
        remember(root, search)
        self.log.info("%s. It is run %s of %s", search.note, search.run_id, BISECT)
        raise run_to_trigger(BISECT, search.run_id, search.form, note=search.note)
