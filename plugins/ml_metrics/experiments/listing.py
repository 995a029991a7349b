"""The list of the comparisons and searches of a deployment, newest first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ml_metrics.documents import Documents
from ml_metrics.errors import FileMissingError, UnreadableInputError
from ml_metrics.experiments.journal import FOLDER
from ml_metrics.experiments.run_ids import BISECT, COMPARE
from ml_metrics.experiments.start_markers import marked_starts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class Listed:
    """One comparison or search."""

    key: str
    began: datetime
    journal: Mapping[str, Any]

    @property
    def dag_id(self) -> str:
        """The DAG that runs it."""
        return dag_of(self.journal)

    @property
    def kind(self) -> str:
        """What it is, in one word."""
        return "search" if self.dag_id == BISECT else "comparison"

    @property
    def test(self) -> str:
        """The test that it starts trials of."""
        return test_of(self.journal)

    @property
    def asked(self) -> str:
        """The question, in a few words."""
        question = question_of(self.journal)
        if self.dag_id == COMPARE:
            return f"{question.get('base')} and {question.get('candidate')}"
        candidates = question.get("candidates") or [""]
        return f"{question.get('metric')} from {candidates[0]} to {candidates[-1]}"

    @property
    def runs(self) -> int:
        """How many trials have ended."""
        return len(self.journal.get("trials") or ())

    @property
    def most_runs(self) -> int | None:
        """How many there are at the most."""
        return question_of(self.journal).get("max_runs")

    @property
    def answer(self) -> str:
        """The answer in one line; empty if there is none yet."""
        return str((self.journal.get("result") or {}).get("answer") or "")

    @property
    def failed(self) -> bool:
        """Whether a metric is worse, or it ended without an answer."""
        return bool((self.journal.get("result") or {}).get("failed"))

    def document(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "key": self.key,
            "began": self.began.isoformat(),
            "kind": self.kind,
            "test": self.test,
            "asked": self.asked,
            "runs": self.runs,
            "max_runs": self.most_runs,
            "ended": bool(self.answer),
            "failed": self.failed,
            "answer": self.answer,
        }


def experiments(storage_root: str) -> Iterator[Listed]:
    """Yield the experiments, newest first. Each is read when the caller needs it.

    Markers without a journal of this deployment, or with another time than the journal, are left out.
    """
    documents = Documents.of_deployment(storage_root, FOLDER)
    for began, key in marked_starts(storage_root):
        try:
            journal = documents.read(key)
        except (FileMissingError, UnreadableInputError):
            continue
        if journal.get("began") == began.isoformat():
            yield Listed(key, began, journal)


def question_of(journal: Mapping[str, Any]) -> dict[str, Any]:
    """Return the question of an experiment."""
    return dict(journal.get("question") or {})


def dag_of(journal: Mapping[str, Any]) -> str:
    """Return the DAG that runs an experiment."""
    return COMPARE if "candidate" in question_of(journal) else BISECT


def test_of(journal: Mapping[str, Any]) -> str:
    """Return the test that an experiment starts trials of."""
    return str(question_of(journal).get("test") or "")
