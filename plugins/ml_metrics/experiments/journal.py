"""The journal of an experiment: a signed document in the storage root, replaced as a whole after each trial.

Whatever is killed, the next try of the task reads it and goes on: a trial has the same run id however often it is
started, and counts once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from ml_metrics.documents import Documents
from ml_metrics.errors import ConfigError, FileMissingError
from ml_metrics.experiments.run_ids import run_id_of
from ml_metrics.experiments.start_markers import mark_start
from ml_metrics.experiments.trial_run import TrialRun

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ml_metrics.experiments.result import Result

FOLDER = "experiments"
CHANGED = "changed"
"""The key of the time at which a journal was written last."""


class Experiment(Protocol):
    """A comparison or a search."""

    @property
    def test(self) -> str:
        """The test whose trials are made."""

    @property
    def parameter(self) -> str:
        """What differs between the versions."""

    @property
    def most_runs(self) -> int:
        """The budget."""

    def question(self) -> dict[str, Any]:
        """Return the question, as JSON."""

    def next_version(self, trials: Sequence[TrialRun]) -> str | None:
        """Return the version to run next, or None if the experiment has ended."""

    def next_node(self, trials: Sequence[TrialRun]) -> str:
        """Return the node of the next trial; empty for wherever the test may run."""

    def planned(self, history: Callable[[], Mapping[str, Sequence[float]]]) -> str:
        """Return a sentence about the runs that it takes. `history`: reads past values of the metrics of the test."""

    def result(self, trials: Sequence[TrialRun]) -> Result:
        """Return what an experiment that has ended shows."""


@dataclass(frozen=True, slots=True)
class Journal:
    """The trials of one experiment so far."""

    documents: Documents
    key: str
    """The run key of the run of the experiment."""
    question: dict[str, Any]
    trials: tuple[TrialRun, ...] = ()
    began: str = ""
    """When the experiment was begun; empty in journals of earlier versions."""
    deployment: str = ""
    """Whose run makes it; empty in journals of earlier versions."""

    @property
    def next_run_id(self) -> str:
        """The id of the next run, whether it has been started or not."""
        return run_id_of(self.key, len(self.trials))

    def add(self, trial: TrialRun) -> Journal:
        """Return the journal with one more trial, once that is in the storage."""
        longer = replace(self, trials=(*self.trials, trial))
        longer.write()
        return longer

    def write(self, result: Result | None = None) -> None:
        """Write the journal, with the result once there is one."""
        trials = [trial.document() for trial in self.trials]
        ended = None if result is None else result.as_document()
        times = {"began": self.began, CHANGED: _now().isoformat()}
        content = {**times, "deployment": self.deployment, "question": self.question, "trials": trials, "result": ended}
        self.documents.write(self.key, content)


def open_journal(storage_root: str, key: str, question: dict[str, Any] | None = None, deployment: str = "") -> Journal:
    """Open the journal of an experiment. If there is none, create it with the question, for a deployment.

    Raises FileMissingError if there is neither a journal nor a question.
    """
    documents = Documents.of_deployment(storage_root, FOLDER)
    question = None if question is None else json.loads(json.dumps(question))
    try:
        content = documents.read(key)
    except FileMissingError:
        if question is None:
            raise
        now = _now()
        mark_start(storage_root, key, now)
        journal = Journal(documents, key, question, began=now.isoformat(), deployment=deployment)
        journal.write()
        return journal
    asked = dict(content.get("question") or {})
    if question is not None and asked != question:
        names = ", ".join(name for name in {**asked, **question} if asked.get(name) != question.get(name))
        raise ConfigError(f"this run has asked another question before ({names}): trigger a new run for a new question")
    trials = tuple(map(TrialRun.from_document, content.get("trials") or ()))
    began, deployment = str(content.get("began") or ""), str(content.get("deployment") or deployment)
    return Journal(documents, key, asked, trials, began, deployment)


def read_result(storage_root: str, key: str) -> dict[str, Any]:
    """Return the result of an experiment. Raises ConfigError if it has not ended."""
    result = Documents.of_deployment(storage_root, FOLDER).read(key).get("result")
    if not result:
        raise ConfigError("the experiment has not ended: it has no result")
    return dict(result)


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)
