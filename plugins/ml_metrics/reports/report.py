"""The report about one run: its problems, when they started, and links to details."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import quote

from ml_metrics.alerts.acts import Act
from ml_metrics.alerts.message import Fact, MessageKind, Problem, Report
from ml_metrics.alerts.pages import page_of_incident, page_of_run, page_of_test
from ml_metrics.config.load import load_file
from ml_metrics.errors import MlMetricsError
from ml_metrics.model import JobStatus, Outcome, Workload
from ml_metrics.reports.cost import cost_facts
from ml_metrics.reports.details import Details
from ml_metrics.reports.log import SHOWN_LINES
from ml_metrics.reports.metric import TestHistory
from ml_metrics.reports.nodes import NodeOfRun
from ml_metrics.reports.problems import changed_metric_of
from ml_metrics.reports.ranking import counted, worst_first
from ml_metrics.reports.recovery import Recovery, recovery_of
from ml_metrics.units import duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.model import Run
    from ml_metrics.run_folder import RunFolder
    from ml_metrics.run_state import RunState
    from ml_metrics.warehouse import Incident, Warehouse

DASHBOARD_PATH = "/ml-metrics"
"""The path of the dashboard inside Airflow. With another path, the address of Airflow's own pages is unknown."""
MAX_PROBLEMS = 100
"""More problems are only counted: a run may fail twenty thousand metrics."""


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
    incident: Incident | None = None,
    node: NodeOfRun | None = None,
) -> Report:
    """Return the report about a run with the given problems. Without the warehouse it uses the run folder alone.

    `incident`: the one that was open before this run. What it reported comes after what is new.
    `node`: what is known about the nodes of the run.
    """
    verdicts = {verdict.metric: verdict for verdict in state.judgement.verdicts} if state.judgement else {}
    history = TestHistory.load(warehouse, run) if warehouse else None
    if node is None and warehouse is not None:
        node = NodeOfRun(run, state.workload, warehouse)
    details = Details(run, state, verdicts, warehouse, history, log_lines, node)
    reported = set(incident.reported) if incident is not None and kind is MessageKind.WORSE else set()
    recovered = kind is MessageKind.RECOVERED
    names = [] if recovered else worst_first(sentences, verdicts, reported)
    recovery = recovery_of(incident, run, state.workload, verdicts, history) if recovered and incident else Recovery()
    found = (details.problem(name, sentences[name]) for name in names[:MAX_PROBLEMS])
    problems = tuple(replace(one, known=one.name in reported) for one in found)
    others = tuple(details.problem(name, warned[name]) for name in worst_first(warned, verdicts)[:MAX_PROBLEMS])
    return Report(
        kind=kind,
        test=run.test,
        run_key=run.key,
        run_id=run.run_id,
        owner=test.owner,
        problems=problems,
        warned=others,
        facts=(*_facts(test, run, state.workload), *cost_facts(state), *_links(run, state.workload, dashboard_url)),
        suspects=details.suspects(),
        warnings=tuple(warnings_of(test, state)),
        commands=tuple(_commands(run, state.folder, state.workload)),
        headline=recovery.headline,
        sentences=recovery.sentences,
        first=details.first_look(),
        values=recovery.now,
        counted=counted(names),
        total=len(names),
        buttons=buttons_of(run.test, run.key, kind, dashboard_url, _acts(test, sentences)),
    )


def minimal_report(run: Run, owner: str, kind: MessageKind, problem: Problem, dashboard_url: str) -> Report:
    """Return the report about a run whose folder is missing or unreadable."""
    facts = (Fact("owner", owner), Fact("run", run.run_id), *_links(run, Workload(JobStatus.MISSED), dashboard_url))
    buttons = buttons_of(run.test, run.key, kind, dashboard_url)
    return Report(kind, run.test, run.key, run.run_id, owner, (problem,), facts, buttons=buttons)


def _facts(test: TestDefinition, run: Run, workload: Workload) -> Iterator[Fact]:
    yield Fact("owner", test.owner)
    yield Fact("run", run.run_id)
    yield Fact("run key", run.key)
    if workload.ended_at is not None:
        yield Fact("ended", f"{workload.ended_at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC")
    reason = f" ({workload.failure_reason})" if workload.failure_reason else ""
    yield Fact("job status", f"{workload.status}{reason}")
    if workload.duration_seconds is not None:
        yield Fact("duration", duration(workload.duration_seconds))
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
    yield Fact("every run", f"of {run.test}", page_of_test(dashboard_url, run.test))


def _acts(test: TestDefinition, problems: Iterable[str]) -> tuple[Act, ...]:
    """Return what a person can do about a run with these problems. Without rows there is nothing to compare with."""
    if not test.metric_collection_config.write_to_bigquery:
        return (Act.ACKNOWLEDGE,)
    changed = (Act.ACCEPT, Act.REGRESSION) if any(map(changed_metric_of, problems)) else ()
    return (*changed, Act.RERUN, Act.ACKNOWLEDGE)


def buttons_of(
    test: str, run_key: str, kind: MessageKind, dashboard_url: str, acts: tuple[Act, ...] = (Act.ACKNOWLEDGE,)
) -> tuple[Fact, ...]:
    """Return the links to the run and to the pages on which acts are confirmed. Opening a link changes nothing."""
    open_run = Fact("open the run", "Open the run", page_of_run(dashboard_url, run_key))
    if kind in {MessageKind.RECOVERED, MessageKind.WARNING}:
        return open_run, Fact("every run", "Every run", page_of_test(dashboard_url, test))
    pages = {act: page_of_incident(dashboard_url, test, run_key, act) for act in acts}
    return (open_run, *(Fact(act.label.lower(), act.label, page) for act, page in pages.items()))


def _commands(run: Run, folder: RunFolder, workload: Workload) -> Iterator[Fact]:
    if workload.logs_command:
        yield Fact("Download the logs", workload.logs_command)
    if workload.status is JobStatus.SUCCESS:
        yield Fact("See the values of earlier runs", f"ml-metrics history {run.test}")
    yield Fact("The files of the run", folder.workload_path(workload.generation))


def warnings_of(test: TestDefinition, state: RunState) -> Iterator[str]:
    """Yield the warnings of the collector and the test file, and metrics that should alert but have no condition."""
    yield from state.collected.warnings if state.collected else ()
    yield from state.efficiency.warnings if state.efficiency else ()
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
