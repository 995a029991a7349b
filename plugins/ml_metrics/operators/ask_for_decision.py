"""The task that starts the run which asks a person about a change, if the test wants that. It does not wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ml_metrics.airflow_versions import AirflowSkipException, is_paused, run_to_trigger
from ml_metrics.documents import Documents
from ml_metrics.errors import FileMissingError, NothingToAskError, UnreadableInputError
from ml_metrics.experiments.run_ids import DECIDE, question_run_id
from ml_metrics.operators.tasks import TestTask
from ml_metrics.settings import Settings
from ml_metrics.values import short_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ASK_FOR_DECISION = "ask_for_decision"
QUESTIONS = "questions"
"""The folder of documents that state which incident a test asked about last."""


def has_asked(test: str, incident: str) -> bool:
    """Return whether a test has asked about an incident. Users who may start runs could name any other test."""
    return _asked(test).get("incident") == incident


def is_shown(test: str, run_id: str) -> bool:
    """Return whether Airflow shows the question of a run. Writing it again would lose the answer."""
    return _asked(test).get("shown_by") == run_id


def mark_shown(test: str, incident: str, run_id: str) -> None:
    """Record that Airflow shows the question of a run."""
    _questions().write(short_hash(test), {"incident": incident, "shown_by": run_id})


class AskForDecision(TestTask):
    """Ask once about each incident. The gate has decided before, and this task changes the result of no run.

    Args:
        incident_to_ask_about: returns the open incident of a test, or raises NothingToAskError.
    """

    def __init__(self, *, incident_to_ask_about: Callable[[str], str], **options: Any) -> None:
        super().__init__(**options)
        self.incident_to_ask_about = incident_to_ask_about

    def perform(self, context: Mapping[str, Any]) -> str:
        """Start the run. Its id is made from the incident, so that later runs and tries start no second one."""
        if self.state(context).trial:
            raise AirflowSkipException("there is no question about a trial")
        try:
            incident = self.incident_to_ask_about(self.test.name)
        except NothingToAskError as error:
            raise AirflowSkipException(f"there is no question: {error}") from error
        ti = context["ti"]
        if is_paused(ti, DECIDE):
            raise AirflowSkipException(f"there is no question: the DAG {DECIDE} is paused")
        run_id = question_run_id(self.test.name, incident, ti.run_id)
        if not has_asked(self.test.name, incident):
            _questions().write(short_hash(self.test.name), {"incident": incident})
        note = f"{self.test.name}: a person decides about incident {incident}"
        self.log.info("%s, in run %s of %s", note, run_id, DECIDE)
        raise run_to_trigger(DECIDE, run_id, {"test": self.test.name, "incident": incident}, note=note)


def _asked(test: str) -> dict[str, Any]:
    try:
        return _questions().read(short_hash(test))
    except (FileMissingError, UnreadableInputError):
        return {}


def _questions() -> Documents:
    return Documents.of_deployment(Settings.load().storage_root, QUESTIONS)
