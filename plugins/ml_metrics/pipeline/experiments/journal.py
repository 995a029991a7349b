"""The journal of an experiment: a signed document in the storage root, replaced as a whole after each trial.

Whatever is killed, the next try of the task reads it and goes on: a trial has the same run id however often it is
started, and counts once.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ml_metrics.core.errors import ConfigError, FileMissingError, UnreadableInputError
from ml_metrics.pipeline.experiments.run_ids import BISECT, COMPARE, run_id_of
from ml_metrics.pipeline.experiments.trial import TrialRun
from ml_metrics.store import storage
from ml_metrics.store.documents import DOCUMENTS, Documents

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True, slots=True)
class Result:
    """The result of an experiment."""

    title: str
    answer: str
    """In one line."""
    failed: bool = field(default=False, kw_only=True)
    """Whether a build should stop: a metric is worse, or there is no answer."""
    notes: tuple[str, ...] = ()
    """What limits the answer: runs that broke, hosts that changed."""
    markdown: str = ""
    """A table for a comment; empty if nothing was measured."""
    junit: str = ""
    document: Mapping[str, Any] = field(default_factory=dict)
    """The same as `ml-metrics compare --json` or `ml-metrics bisect --json` prints."""

    def as_document(self) -> dict[str, Any]:
        """With the comment as a whole."""
        return {**asdict(self), "notes": list(self.notes), "comment": self.comment}

    @property
    def comment(self) -> str:
        """A Markdown comment: title, answer, table and notes."""
        notes = "\n".join(f"- {note}" for note in self.notes)
        return "\n\n".join(part for part in (f"### {self.title}", self.answer, self.markdown, notes) if part)


BEGUN = "experiments_begun"
"""The folder, for each month, of markers that list experiments by the time of their start."""
_MONTH_NAME = re.compile(r"\d{4}-\d{2}")
_MARKER = re.compile(r"\d{8}T\d{6}Z__[0-9a-f-]{36}")


def remove_start(storage_root: str, key: str, began: datetime) -> None:
    """Remove the marker of an experiment, if there is one."""
    _month(storage_root, began).remove(_name(key, began))


def _month(storage_root: str, began: datetime) -> Documents:
    return Documents.of_deployment(storage_root, BEGUN, began.strftime("%Y-%m"))


def _name(key: str, began: datetime) -> str:
    return f"{began.strftime('%Y%m%dT%H%M%SZ')}__{key}"


EXPERIMENTS_FOLDER = "experiments"
CHANGED = "changed"
"""The key of the time at which a journal was written last."""


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
        """With one more trial, once that is in the storage."""
        longer = replace(self, trials=(*self.trials, trial))
        longer.write()
        return longer

    def write(self, result: Result | None = None) -> None:
        trials = [trial.document() for trial in self.trials]
        ended = None if result is None else result.as_document()
        times = {"began": self.began, CHANGED: _now().isoformat()}
        content = {**times, "deployment": self.deployment, "question": self.question, "trials": trials, "result": ended}
        self.documents.write(self.key, content)


def open_journal(storage_root: str, key: str, question: dict[str, Any] | None = None, deployment: str = "") -> Journal:
    """If there is none, it is created with the question. Raises FileMissingError if there is neither."""
    documents = Documents.of_deployment(storage_root, EXPERIMENTS_FOLDER)
    question = None if question is None else json.loads(json.dumps(question))
    try:
        content = documents.read(key)
    except FileMissingError:
        if question is None:
            raise
        now = _now()
        _month(storage_root, now).write(_name(key, now), {})
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
    """Raises ConfigError if the experiment has not ended."""
    result = Documents.of_deployment(storage_root, EXPERIMENTS_FOLDER).read(key).get("result")
    if not result:
        raise ConfigError("the experiment has not ended: it has no result")
    return dict(result)


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


@dataclass(frozen=True, slots=True)
class Listed:
    """One comparison or search."""

    key: str
    began: datetime
    journal: Mapping[str, Any]

    @property
    def dag_id(self) -> str:
        return dag_of(self.journal)

    @property
    def kind(self) -> str:
        return "search" if self.dag_id == BISECT else "comparison"

    @property
    def test(self) -> str:
        return test_of(self.journal)

    @property
    def asked(self) -> str:
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
    """Newest first. Each is read when the caller needs it.

    A month is listed once the later ones have been read. A marker proves nothing, since anyone may have written it:
    one without a journal of this deployment, or with another time than the journal, is left out.
    """
    documents = Documents.of_deployment(storage_root, EXPERIMENTS_FOLDER)
    months = storage.Folder(storage_root).subfolders(f"{DOCUMENTS}/{BEGUN}")
    for month in sorted(filter(_MONTH_NAME.fullmatch, months), reverse=True):
        for name in reversed(Documents.of_deployment(storage_root, BEGUN, month).names()):
            _, _, key = name.partition("__")
            try:
                journal = documents.read(key) if _MARKER.fullmatch(name) else {}
                began = datetime.fromisoformat(str(journal.get("began")))
            except (FileMissingError, UnreadableInputError, ValueError):
                continue
            if name == _name(key, began):
                yield Listed(key, began, journal)


def question_of(journal: Mapping[str, Any]) -> dict[str, Any]:
    return dict(journal.get("question") or {})


def dag_of(journal: Mapping[str, Any]) -> str:
    return COMPARE if "candidate" in question_of(journal) else BISECT


def test_of(journal: Mapping[str, Any]) -> str:
    return str(question_of(journal).get("test") or "")
