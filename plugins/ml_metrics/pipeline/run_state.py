"""The documents of one run, each read at most once.

The tasks of a run communicate through the JSON documents in its run folder. A document in a bucket costs a request, so
the parts of a step share one `RunState` instead of reading the folder themselves.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from ml_metrics.core.errors import FileMissingError, StorageError, UnreadableInputError
from ml_metrics.core.faults import DOCUMENT as FAULTS
from ml_metrics.core.faults import FaultJournal
from ml_metrics.core.kinds import is_bill
from ml_metrics.core.model import JobStatus, Run, Workload, job_problem
from ml_metrics.store.run_folder import DOCUMENTS, damage, workload_in, writer_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.core.model import Metric, Sweep, TagCurve
    from ml_metrics.judge import Judgement
    from ml_metrics.measure import Collected
    from ml_metrics.store.run_folder import RunFolder
    from ml_metrics.store.storage import File


T = TypeVar("T")
NEVER_STARTED = Workload(
    status=JobStatus.MISSED, failure_reason="NotStarted", detail="the task that starts the workload did not run"
)


def bring_back(folder: RunFolder, now: float = math.inf) -> FaultJournal | None:
    """The planned faults of a run, after what they took away is there again, as far as their time is over by now."""
    journal = folder.parsed(FAULTS, FaultJournal.from_document)
    for fault in journal.faults if journal else ():
        if journal and fault.is_away and (fault.ends_at or 0.0) <= now:
            folder.bring_back(fault.folder, fault.aside)
            journal = journal.with_fault(replace(fault, undone_at=time.time()))
            folder.write(FAULTS, journal.document())
    return journal


@dataclass(frozen=True, slots=True)
class Gate:
    """The decision of a run's last task, `assert_success`."""

    reasons: tuple[str, ...]
    """Why the run failed; empty if it passed."""
    problems: dict[str, str]
    """What to alert about: a name that is the same in each run, and a sentence about this run."""


class RunState:
    """What a run folder holds. A document that its task did not write is None.

    One that is there, and that this deployment did not write for this run, counts as absent, with a warning.

    Args:
        folder: where the documents are.
        has_written: whether a document was written, as far as anybody but the folder knows. One that was and is absent
            raises `StorageError`: the storage is not there, or the key is another one, and the run is as it was.
    """

    def __init__(self, folder: RunFolder, has_written: Callable[[str], bool] = lambda _: False) -> None:
        self.folder = folder
        self.has_written = has_written

    def strict(self) -> RunState:
        """The same documents, where one that is not believed raises `UnreadableInputError`.

        What is sent about a run depends on it: a document that somebody replaced must not look like one that is absent.
        """
        return self if self.folder.strict else RunState(replace(self.folder, strict=True), self.has_written)

    @cached_property
    def identity(self) -> tuple[Run, TestDefinition]:
        """The run, and its test as defined when the run began."""
        from pydantic import ValidationError

        from ml_metrics.config.definition import TestDefinition

        where = self.folder.document_path("run")
        try:
            start = self._start or self.folder.documents.read("run")
        except FileMissingError:
            raise UnreadableInputError(
                f"{self.folder.path}: is not a run folder: it has no {DOCUMENTS}/run.json"
            ) from None
        try:
            test = TestDefinition.model_validate(start["test_file"])
            run = Run(*(str(start[name]) for name in ("test", "dag_id", "run_id", "deployment")))
        except (KeyError, TypeError, ValidationError) as error:
            raise UnreadableInputError(f"{damage(where, 'run', error)}: it does not identify a run") from error
        if self.folder.is_in_place and ((run.test, run.key) != self.folder.place or test.name != run.test):
            raise UnreadableInputError(
                f"{where}: states a run of test {run.test!r} with the key {run.key}, but is in the folder of another: "
                "the last two parts of the path should be the test and the run key"
            )
        return run, test

    @property
    def params(self) -> dict[str, Any]:
        return (self._start or {}).get("params") or {}

    @property
    def has_begun(self) -> bool:
        """Whether the task of the workload has recorded which run this is."""
        return self._start is not None

    @property
    def trial(self) -> tuple[str, ...]:
        """What was changed in a trial; empty for a regular run, as for every run of an older version."""
        return tuple(map(str, (self._start or {}).get("trial") or ()))

    @property
    def started_by(self) -> str:
        return str((self._start or {}).get("started_by") or "")

    @property
    def notify(self) -> tuple[str, ...]:
        """The addresses that the verdict of a trial goes to, if it was started with any."""
        return tuple(map(str, (self._start or {}).get("notify") or ()))

    @cached_property
    def recorded_workload(self) -> Workload | None:
        """How the workload went so far; None if its task has not run."""
        found = self._parsed("workload", workload_in)
        _ = found or self._start  # raises if the task of the workload has recorded which run this is, and that is gone
        return found

    @property
    def workload(self) -> Workload:
        """How the workload went, `missed` if its task did not run."""
        return self.recorded_workload or NEVER_STARTED

    def files(self) -> list[File]:
        """List the workload's files, which are those of the generation that its document states."""
        _ = self.recorded_workload  # raises if that is lost
        return self.folder.files()

    @cached_property
    def collected(self) -> Collected | None:
        return self._metrics_document("metrics")

    @cached_property
    def faults(self) -> FaultJournal | None:
        """The planned faults of the run, and what became of them. What they took away is there again."""
        return bring_back(self.folder)

    @cached_property
    def goodput(self) -> dict[str, Any] | None:
        return self._parsed("goodput", dict)

    @cached_property
    def efficiency(self) -> Collected | None:
        """What the run cost and achieved, as `judge_run` computed it."""
        return self._metrics_document("efficiency")

    @cached_property
    def metrics(self) -> tuple[Metric, ...]:
        """All metrics of the run: those that were measured, and what it cost and achieved."""
        own = {metric.name for metric in self.measured}
        computed = self.efficiency.metrics if self.efficiency else ()
        return (*self.measured, *(metric for metric in computed if metric.name not in own))

    @cached_property
    def measured(self) -> tuple[Metric, ...]:
        """The metrics of both measuring tasks. Where both have a name, the collected one counts.

        The exception are step times that were derived from the wall times of points: those of the goodput log count.
        What a workload wrote under the name of its own bill does not.
        """
        from ml_metrics.measure import STEP_TIMES, Collected

        measured = None if self.goodput is None else Collected.from_document(self.goodput)
        own = {metric.name for metric in measured.metrics} if measured else set()
        by_name: dict[str, Metric] = {}
        for document in filter(None, (self.collected, measured)):
            for metric in document.metrics:
                if not is_bill(metric.name) and (metric.strategy != STEP_TIMES or metric.name not in own):
                    by_name.setdefault(metric.name, metric)
        return tuple(by_name.values())

    @property
    def curves(self) -> dict[str, TagCurve]:
        """The curves of the run that are judged, by tag."""
        return self.collected.curves if self.collected else {}

    @property
    def sweeps(self) -> tuple[Sweep, ...]:
        """Its curves over a load, a size or another setting."""
        return self.collected.sweeps if self.collected else ()

    @cached_property
    def judgement(self) -> Judgement | None:
        from ml_metrics.judge import Judgement

        return self._parsed("verdicts", Judgement.from_document)

    @property
    def alerts(self) -> dict[str, str]:
        """The sentences of the judgement's alerts, by the names of the problems."""
        return {
            f"{alert.kind}:{alert.metric}" if alert.metric else job_problem(self.workload): alert.message
            for alert in (self.judgement.alerts if self.judgement else ())
        }

    @cached_property
    def gate(self) -> Gate | None:
        return self._parsed("gate", lambda found: Gate(tuple(map(str, found["reasons"])), dict(found["troubles"])))

    @cached_property
    def _start(self) -> dict[str, Any] | None:
        return self._parsed("run", dict)

    def _metrics_document(self, name: str) -> Collected | None:
        from ml_metrics.measure import Collected

        return self._parsed(name, Collected.from_document)

    def _parsed(self, document: str, parse: Callable[[dict[str, Any]], T]) -> T | None:
        """None means that the document's task wrote none, never that it was lost."""
        found = self.folder.parsed(document, parse)
        if found is None and self.has_written(document):
            raise StorageError(
                f"{self.folder.document_path(document)}: Airflow states that the task `{writer_of(document)}` has "
                "written it, but it is absent or not believed. Is the storage mounted, and does `documents_key` still "
                f"have the key of then? Restore it and clear this task; or clear `{writer_of(document)}`, which writes "
                "it again"
            )
        return found
