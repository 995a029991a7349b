"""The report about one run: its problems, when they started, and links to details."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from ml_metrics.alerts.message import Fact, MessageKind, Problem, Report
from ml_metrics.config.load import load_file
from ml_metrics.errors import MlMetricsError
from ml_metrics.model import JobStatus, Outcome, Workload
from ml_metrics.reports.log import SHOWN_LINES, error_in, log_of
from ml_metrics.reports.metric import MetricHistory, TestHistory, metric_facts, picture_of
from ml_metrics.reports.problems import metric_of, subject_text
from ml_metrics.reports.suspects import Streak, level_change, streak_of, suspects

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.model import Run, Verdict
    from ml_metrics.run_folder import RunFolder
    from ml_metrics.run_state import RunState
    from ml_metrics.warehouse import Warehouse

DASHBOARD_PATH = "/ml-metrics"
"""The path of the dashboard inside Airflow. With another path, the address of Airflow's own pages is unknown."""
MAX_DETAILED_METRICS = 6
"""How many metrics have history and a chart: a run may fail hundreds, and each takes queries."""

OUT_OF_MEMORY = "OOMKilled"


def report_of(  # noqa: PLR0913  (the sources of a report)
    test: TestDefinition,
    run: Run,
    state: RunState,
    kind: MessageKind,
    sentences: Mapping[str, str],
    *,
    warehouse: Warehouse | None,
    dashboard_url: str,
    log_lines: int = SHOWN_LINES,
    warned: Mapping[str, str] = MappingProxyType({}),
) -> Report:
    """Return the report about a run with the given problems. Without the warehouse it uses the run folder alone."""
    verdicts = {verdict.metric: verdict for verdict in state.judgement.verdicts} if state.judgement else {}
    details = _Details(
        run, state, verdicts, warehouse, TestHistory.load(warehouse, run) if warehouse else None, log_lines
    )
    reported = {} if kind is MessageKind.RECOVERED else sentences
    problems = tuple(details.problem(name, sentence) for name, sentence in reported.items())
    return Report(
        kind=kind,
        test=run.test,
        run_key=run.key,
        run_id=run.run_id,
        owner=test.owner,
        problems=problems,
        warned=tuple(details.problem(name, sentence) for name, sentence in warned.items()),
        facts=(*_facts(test, run, state.workload), *_links(run, state.workload, dashboard_url)),
        suspects=details.suspects(),
        warnings=tuple(warnings_of(test, state)),
        commands=tuple(_commands(run, state.folder, state.workload)),
    )


def minimal_report(run: Run, owner: str, kind: MessageKind, problem: Problem, dashboard_url: str) -> Report:
    """Return the report about a run whose folder is missing or unreadable."""
    facts = (Fact("owner", owner), Fact("run", run.run_id), *_links(run, Workload(JobStatus.MISSED), dashboard_url))
    return Report(kind, run.test, run.key, run.run_id, owner, (problem,), facts)


@dataclass
class _Details:
    """The details of a run's problems, with one query per metric."""

    run: Run
    state: RunState
    verdicts: Mapping[str, Verdict]
    warehouse: Warehouse | None
    history: TestHistory | None
    log_lines: int
    streaks: list[tuple[str, Streak]] = field(default_factory=list)
    level_changes: list[str] = field(default_factory=list)
    detailed: int = 0

    def problem(self, name: str, sentence: str) -> Problem:
        """Return a problem with its facts."""
        workload, verdict = self.state.workload, self.verdicts.get(metric_of(name))
        if verdict is not None:
            return self._metric_problem(name, sentence, verdict)
        if name.startswith("job_status") and self.history is not None:
            self.streaks.append(("the job", streak_of(self.run.key, self.history.jobs_failed())))
        if not name.startswith("job_status"):
            return Problem(name, subject_text(name, workload), sentence)
        log = log_of(self.state.folder, workload.attempts, self.log_lines) if self.log_lines else None
        error = error_in(log.lines) if log else ""
        short = f"{subject_text(name, workload)}: {error}" if error else subject_text(name, workload)
        return Problem(name, short, sentence, tuple(_job_facts(workload, error)), log=log)

    def _metric_problem(self, name: str, sentence: str, verdict: Verdict) -> Problem:
        history, picture, workload = None, None, self.state.workload
        if self.warehouse is not None and self.detailed < MAX_DETAILED_METRICS:
            self.detailed += 1
            history = MetricHistory.load(self.warehouse, self.run, verdict.metric)
            streak = streak_of(self.run.key, history.judged())
            self.streaks.append((verdict.metric, streak))
            attributes = self.history.attributes if self.history is not None else {}
            first = streak.first_failed
            self.level_changes.append(
                level_change(verdict, history, self.run, workload, first_failed=first, attributes=attributes)
            )
            if history.values:
                ended = workload.ended_at or datetime.now(UTC)
                picture = picture_of(self.detailed, verdict, history, self.run.key, ended)
        return Problem(name, subject_text(name, workload), sentence, tuple(metric_facts(verdict, history)), picture)

    def suspects(self) -> tuple[str, ...]:
        """Return sentences on when the problems started."""
        if self.history is None:
            return ()
        started = suspects(self.run, self.state.folder, self.history, self.streaks)
        return (*started, *filter(None, self.level_changes))


def _job_facts(workload: Workload, error: str) -> Iterator[Fact]:
    if error:
        yield Fact("error", error)
    if workload.failure_reason:
        yield Fact("because", workload.failure_reason)
    if workload.detail:
        yield Fact("detail", workload.detail)
    if workload.failure_reason == OUT_OF_MEMORY:
        limit = workload.memory_limit or "none: the node ran out of memory"
        peak = workload.peak_memory_bytes
        yield Fact("memory", f"limit {limit}, highest measured {_bytes(peak)}" if peak else f"limit {limit}")


def _bytes(number: int) -> str:
    """Return a number of bytes in the units in which Kubernetes states limits."""
    return f"{number / 2**30:.3g}Gi" if number >= 2**30 else f"{number / 2**20:.4g}Mi"


def _facts(test: TestDefinition, run: Run, workload: Workload) -> Iterator[Fact]:
    yield Fact("owner", test.owner)
    yield Fact("run", run.run_id)
    yield Fact("run key", run.key)
    if workload.ended_at is not None:
        yield Fact("ended", f"{workload.ended_at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC")
    reason = f" ({workload.failure_reason})" if workload.failure_reason else ""
    yield Fact("job status", f"{workload.status}{reason}")
    if workload.duration_seconds is not None:
        yield Fact("duration", f"{workload.duration_seconds:.0f} s")
    if workload.attempts > 1:
        yield Fact("attempts", str(workload.attempts))
    if workload.image:
        yield Fact("image", workload.image)


def _links(run: Run, workload: Workload, dashboard_url: str) -> Iterator[Fact]:
    airflow, found, rest = dashboard_url.rpartition(DASHBOARD_PATH)
    if found and not rest:
        yield Fact("tasks", "the run in Airflow", f"{airflow}/dags/{quote(run.dag_id)}/runs/{quote(run.run_id)}")
    if workload.logs_link:
        yield Fact("logs", "the logs of the workload", workload.logs_link)
    if workload.workload_link:
        yield Fact("workload", workload.pod or "the Kubernetes workload", workload.workload_link)
    yield Fact("this run", "on the dashboard", f"{dashboard_url}/run?{urlencode({'run': run.key})}")
    yield Fact("every run", f"of {run.test}", f"{dashboard_url}/test?{urlencode({'test': run.test})}")


def _commands(run: Run, folder: RunFolder, workload: Workload) -> Iterator[Fact]:
    if workload.logs_command:
        yield Fact("Download the logs", workload.logs_command)
    if workload.status is JobStatus.SUCCESS:
        yield Fact("See the values of earlier runs", f"ml-metrics history {run.test}")
    yield Fact("The files of the run", folder.path)


def warnings_of(test: TestDefinition, state: RunState) -> Iterator[str]:
    """Yield the warnings of the collector and the test file, and metrics that should alert but have no condition."""
    yield from state.collected.warnings if state.collected else ()
    yield from _test_file_warnings(test.source)
    if state.workload.status is JobStatus.SUCCESS and state.judgement:
        for verdict in state.judgement.verdicts:
            if verdict.outcome is Outcome.SKIPPED and not verdict.rule and verdict.reason:
                yield f"{verdict.metric}: {verdict.reason}"


def _test_file_warnings(path: str) -> tuple[str, ...]:
    """Return the warnings of a test file; none if the file was removed or broken since the run."""
    if not path:
        return ()
    try:
        return tuple(load_file(path).warnings)
    except (MlMetricsError, OSError):
        return ()
