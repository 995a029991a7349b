"""The report about one run: what is wrong, how it is known, where to look."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from ml_metrics.alerts.message import Fact, Occasion, Report, Trouble
from ml_metrics.model import JobStatus, Workload
from ml_metrics.reports.drift import drift_of
from ml_metrics.reports.metric import metric_facts
from ml_metrics.reports.past import MetricPast, TestPast
from ml_metrics.reports.picture import picture_of
from ml_metrics.reports.suspect import Row, row_before, suspects
from ml_metrics.reports.troubles import metric_of, short
from ml_metrics.reports.warnings import warnings_of
from ml_metrics.run_state import RunState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.model import Run, Verdict
    from ml_metrics.run_folder import RunFolder
    from ml_metrics.warehouse import Warehouse

DASHBOARD = "/ml-metrics"
"""Where the dashboard is inside Airflow; elsewhere, Airflow's own pages cannot be told from its address."""
DETAILED = 6
"""How many metrics are told with their past and a chart: a run may break hundreds, and each asks the warehouse."""


def report_of(  # noqa: PLR0913  (a report draws on all that is known of a run)
    test: TestDefinition,
    run: Run,
    folder: RunFolder,
    occasion: Occasion,
    sentences: Mapping[str, str],
    *,
    warehouse: Warehouse | None,
    dashboard_url: str,
) -> Report:
    """Everything that a message about a run tells. Without the warehouse, what the run folder alone knows."""
    workload = RunState(folder).workload
    told = {} if occasion is Occasion.RECOVERED else dict(sentences)
    inquiry = _Inquiry(run, folder, workload, warehouse)
    troubles = tuple(inquiry.trouble(name, sentence) for name, sentence in told.items())
    return Report(
        occasion=occasion,
        test=run.test,
        run_key=run.key,
        run_id=run.run_id,
        owner=test.owner,
        troubles=troubles,
        facts=(*_facts(test, run, workload), *_links(run, workload, dashboard_url)),
        suspects=inquiry.suspects(),
        warnings=tuple(warnings_of(test, folder, inquiry.verdicts.values())),
        commands=tuple(_commands(run, folder, workload)),
    )


@dataclass(frozen=True, slots=True)
class Plain:
    """A trouble that is known without a look into the run's documents."""

    occasion: Occasion
    name: str
    short: str


def plain_report(run: Run, owner: str, trouble: Plain, sentence: str, dashboard_url: str) -> Report:
    """What a message tells about a run whose folder is not there, or cannot be read."""
    told = Trouble(trouble.name, trouble.short, sentence)
    facts = (Fact("owner", owner), Fact("run", run.run_id), *_links(run, Workload(JobStatus.MISSED), dashboard_url))
    return Report(trouble.occasion, run.test, run.key, run.run_id, owner, (told,), facts)


class _Inquiry:
    """Looks into the troubles of one run, and asks the warehouse for each metric once."""

    def __init__(self, run: Run, folder: RunFolder, workload: Workload, warehouse: Warehouse | None) -> None:
        judgement = RunState(folder).judgement
        self.run, self.folder, self.workload, self.warehouse = run, folder, workload, warehouse
        self.verdicts = {verdict.metric: verdict for verdict in judgement.verdicts} if judgement else {}
        self.past = TestPast.of(warehouse, run) if warehouse else None
        self.rows: list[tuple[str, Row]] = []
        self.drifts: list[str] = []
        self.detailed = 0

    def trouble(self, name: str, sentence: str) -> Trouble:
        """A trouble with what is known of it."""
        verdict = self.verdicts.get(metric_of(name))
        if verdict is not None:
            return self._metric(name, sentence, verdict)
        if name.startswith("job_status") and self.past is not None:
            self.rows.append(("the job", row_before(self.run.key, self.past.ended())))
        return Trouble(name, short(name, self.workload), sentence, tuple(_job_facts(name, self.workload)))

    def _metric(self, name: str, sentence: str, verdict: Verdict) -> Trouble:
        past, picture = None, None
        if self.warehouse is not None and self.detailed < DETAILED:
            self.detailed += 1
            past = MetricPast.of(self.warehouse, self.run, verdict.metric)
            row = row_before(self.run.key, past.judged())
            self.rows.append((verdict.metric, row))
            self.drifts.append(drift_of(verdict, past, self.run, self.workload, row.first_bad))
            if past.values:
                ended = self.workload.ended_at or datetime.now(UTC)
                picture = picture_of(self.detailed, verdict, past, self.run.key, ended)
        return Trouble(name, short(name, self.workload), sentence, tuple(metric_facts(verdict, past)), picture)

    def suspects(self) -> tuple[str, ...]:
        """Where the troubles may have begun."""
        if self.past is None:
            return ()
        return (*suspects(self.run, self.folder, self.past, self.rows), *filter(None, self.drifts))


def _job_facts(name: str, workload: Workload) -> Iterator[Fact]:
    if not name.startswith("job_status"):
        return
    if workload.failure_reason:
        yield Fact("because", workload.failure_reason)
    if workload.detail:
        yield Fact("detail", workload.detail)


def _facts(test: TestDefinition, run: Run, workload: Workload) -> Iterator[Fact]:
    yield Fact("owner", test.owner)
    yield Fact("run", run.run_id)
    yield Fact("run key", run.key)
    if workload.ended_at is not None:
        yield Fact("ended", f"{workload.ended_at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC")
    yield Fact("job status", _status(workload))
    if workload.duration_seconds is not None:
        yield Fact("duration", f"{workload.duration_seconds:.0f} s")
    if workload.attempts > 1:
        yield Fact("attempts", str(workload.attempts))
    if workload.image:
        yield Fact("image", workload.image)


def _links(run: Run, workload: Workload, dashboard_url: str) -> Iterator[Fact]:
    airflow, found, rest = dashboard_url.rpartition(DASHBOARD)
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


def _status(workload: Workload) -> str:
    return f"{workload.status} ({workload.failure_reason})" if workload.failure_reason else str(workload.status)
