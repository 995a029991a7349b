"""The documents of one run, each read at most once.

The tasks of a run communicate through the JSON documents in its run folder. A document in a bucket costs a request, so
the parts of a step share one `RunState` instead of reading the folder themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ml_metrics.clusters.failure_reasons import job_problem
from ml_metrics.errors import UnreadableInputError
from ml_metrics.model import JobStatus, Run, Workload
from ml_metrics.run_folder import DOCUMENTS

if TYPE_CHECKING:
    from ml_metrics.collect import Collected
    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.judge import Judgement
    from ml_metrics.model import Metric, TagCurve
    from ml_metrics.run_folder import RunFolder

NEVER_STARTED = Workload(
    status=JobStatus.MISSED, failure_reason="NotStarted", detail="the task that starts the workload did not run"
)


@dataclass(frozen=True, slots=True)
class Gate:
    """The decision of a run's last task, `assert_success`."""

    reasons: tuple[str, ...]
    """Why the run failed; empty if it passed."""
    problems: dict[str, str]
    """What to alert about: a name that is the same in each run, and a sentence about this run."""


class RunState:
    """What a run folder holds. A document that its task did not write is None; a damaged one raises an error."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder

    @cached_property
    def identity(self) -> tuple[Run, TestDefinition]:
        """The run, and its test as defined when the run began."""
        from pydantic import ValidationError

        from ml_metrics.config.definition import TestDefinition

        if self._start is None:
            raise UnreadableInputError(f"{self.folder.path}: is not a run folder: it has no {DOCUMENTS}/run.json")
        try:
            test = TestDefinition.model_validate(self._start["test_file"])
            return Run(*(self._start[name] for name in ("test", "dag_id", "run_id", "deployment"))), test
        except (KeyError, ValidationError) as error:
            where = self.folder.document_path("run")
            raise UnreadableInputError(f"{where}: does not identify a run: {error}") from error

    @property
    def params(self) -> dict[str, Any]:
        """The parameters with which the run was started."""
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
        """The user who started the run by hand, or empty."""
        return str((self._start or {}).get("started_by") or "")

    @property
    def notify(self) -> tuple[str, ...]:
        """The addresses that the verdict of a trial goes to, if it was started with any."""
        return tuple(map(str, (self._start or {}).get("notify") or ()))

    @cached_property
    def recorded_workload(self) -> Workload | None:
        """How the workload went so far; None if its task has not run."""
        return self.folder.read_workload()

    @property
    def workload(self) -> Workload:
        """How the workload went, `missed` if its task did not run."""
        return self.recorded_workload or NEVER_STARTED

    @cached_property
    def collected(self) -> Collected | None:
        """The metrics and warnings of `collect_metrics`."""
        return self._metrics_document("metrics")

    @cached_property
    def goodput(self) -> dict[str, Any] | None:
        """The report of `measure_goodput`."""
        return self.folder.read("goodput")

    @cached_property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics of both measuring tasks. Where both have a name, the collected one counts.

        The exception are step times that were derived from the wall times of points: those of the goodput log count.
        """
        from ml_metrics.collect import Collected
        from ml_metrics.collect.step_times import STRATEGY

        measured = None if self.goodput is None else Collected.from_document(self.goodput)
        own = {metric.name for metric in measured.metrics} if measured else set()
        by_name: dict[str, Metric] = {}
        for document in filter(None, (self.collected, measured)):
            for metric in document.metrics:
                if metric.strategy != STRATEGY or metric.name not in own:
                    by_name.setdefault(metric.name, metric)
        return tuple(by_name.values())

    @property
    def curves(self) -> dict[str, TagCurve]:
        """The curves of the run that are judged, by tag."""
        return self.collected.curves if self.collected else {}

    @cached_property
    def judgement(self) -> Judgement | None:
        """The verdicts of `judge_run`."""
        from ml_metrics.judge import Judgement

        document = self.folder.read("verdicts")
        return None if document is None else Judgement.from_document(document)

    @property
    def alerts(self) -> dict[str, str]:
        """The sentences of the judgement's alerts, by the names of the problems."""
        return {
            f"{alert.kind}:{alert.metric}" if alert.metric else job_problem(self.workload): alert.message
            for alert in (self.judgement.alerts if self.judgement else ())
        }

    @cached_property
    def gate(self) -> Gate | None:
        """The decision of `assert_success`."""
        document = self.folder.read("gate")
        return None if document is None else Gate(tuple(document["reasons"]), document["troubles"])

    @cached_property
    def _start(self) -> dict[str, Any] | None:
        return self.folder.read("run")

    def _metrics_document(self, name: str) -> Collected | None:
        from ml_metrics.collect import Collected

        document = self.folder.read(name)
        return None if document is None else Collected.from_document(document)
