"""The report about one run: its problems, when they started, and links to details."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import quote

from ml_metrics.alerts.acts import Act
from ml_metrics.alerts.causes import NodeOfRun, Start, fault_sentences, level_change, straggler
from ml_metrics.alerts.job import SHOWN_LINES, advice_on, job_facts, job_words, log_of
from ml_metrics.alerts.message import Fact, MessageKind, Problem, Report, page_of_incident, page_of_run, page_of_test
from ml_metrics.alerts.metric import (
    MetricHistory,
    Streak,
    TestHistory,
    as_stored,
    metric_facts,
    metric_words,
    picture_of,
    streak_of,
    value_and_requirement,
)
from ml_metrics.alerts.problems import changed_metric_of, counted, metric_of, short_name, worst_first
from ml_metrics.alerts.render import cut_name
from ml_metrics.config.definition import TestDefinition
from ml_metrics.config.loading import load_file
from ml_metrics.core.errors import MlMetricsError
from ml_metrics.core.faults import RECOVERY
from ml_metrics.core.model import BROKEN, SWEEP, Bounds, JobStatus, Outcome, Run, Verdict, Workload
from ml_metrics.core.units import duration, readable
from ml_metrics.judge import run_again
from ml_metrics.measure.efficiency import NO_BOOK, NOT_A_TIME, REGRESSION_METADATA, largest_cost
from ml_metrics.pipeline import attributes_of
from ml_metrics.warehouse import Place, curves_before

if TYPE_CHECKING:
    from ml_metrics.pipeline import RunState
    from ml_metrics.warehouse import Incident, Warehouse


MAX_DETAILED_METRICS = 6
"""How many metrics have history and a chart: a run may fail hundreds, and each takes queries."""
MAX_PROBLEMS = 100
"""More problems are only counted: a run may fail twenty thousand metrics."""
MAX_NAMES = 20
THE_JOB = "the job"


def report_of(
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
    """The report about a run with the given problems. Without the warehouse it uses the run folder alone.

    `incident`: the one that was open before this run. What it reported comes after what is new.
    `node`: what is known about the nodes of the run.
    """
    verdicts = {verdict.metric: verdict for verdict in state.judgement.verdicts} if state.judgement else {}
    history = TestHistory.load(warehouse, run, partial(attributes_of, test, state)) if warehouse else None
    if node is None and warehouse is not None:
        node = NodeOfRun(run, state.workload, warehouse)
    details = Details(run, state, verdicts, warehouse, history, log_lines, node)
    reported = set(incident.reported) if incident is not None and kind is MessageKind.WORSE else set()
    recovered = kind is MessageKind.RECOVERED
    names = [] if recovered else worst_first(sentences, verdicts, reported)
    recovery = (
        recovery_of(incident, run, state.workload, verdicts, history, warehouse) if recovered and incident else None
    )
    headline, start, told, now = recovery or ("", "", (), ())
    found = (details.problem(name, sentences[name]) for name in names[:MAX_PROBLEMS])
    problems = tuple(replace(one, known=one.name in reported) for one in found)
    others = tuple(details.problem(name, warned[name]) for name in worst_first(warned, verdicts)[:MAX_PROBLEMS])
    again = run_again(run.run_id)
    acts: tuple[Act, ...] = (Act.ACKNOWLEDGE,)
    if test.metric_collection_config.write_to_bigquery:  # without rows there is nothing to compare with
        changed = (Act.ACCEPT, Act.REGRESSION) if any(map(changed_metric_of, sentences)) else ()
        acts = (*changed, Act.RERUN, Act.ACKNOWLEDGE)
    return Report(
        kind=kind,
        test=run.test,
        run_key=run.key,
        run_id=run.run_id,
        owner=test.owner,
        problems=problems,
        warned=others,
        facts=(
            Fact("owner", test.owner),
            Fact("run", f"{run.run_id}{f', which runs {again} again' if again else ''}"),
            *_links(run, state.workload, dashboard_url),
        ),
        suspects=(*details.suspects(), *_faults(state, verdicts)),
        warnings=tuple(warnings_of(test, state)),
        headline=headline,
        start=start if recovered else details.start(),
        sentences=told,
        first=details.first_look(),
        values=now[:MAX_NAMES],
        counted=counted(names),
        total=len(names) or len(now) or 1,
        buttons=buttons_of(run.test, run.key, kind, dashboard_url, acts),
    )


def minimal_report(run: Run, owner: str, kind: MessageKind, problem: Problem, dashboard_url: str) -> Report:
    facts = (Fact("owner", owner), Fact("run", run.run_id), *_links(run, Workload(JobStatus.MISSED), dashboard_url))
    buttons = buttons_of(run.test, run.key, kind, dashboard_url)
    return Report(kind, run.test, run.key, run.run_id, owner, (problem,), facts, buttons=buttons)


@dataclass
class Details:
    """The details of a run's problems, with one query per metric."""

    run: Run
    state: RunState
    verdicts: Mapping[str, Verdict]
    warehouse: Warehouse | None
    history: TestHistory | None
    log_lines: int
    node: NodeOfRun | None = None
    streaks: dict[str, Streak] = field(default_factory=dict)
    """By subject: `the job`, or a metric."""
    starts: dict[Streak, Start] = field(default_factory=dict)
    level_changes: list[str] = field(default_factory=list)
    detailed: int = 0
    main: tuple[str, str] = ("", "")
    """The name of the problem that comes first, and its subject."""

    def problem(self, name: str, sentence: str) -> Problem:
        """A problem with its facts. The first one is what the message is mainly about."""
        verdict = self.verdicts.get(metric_of(name))
        if not self.main[0]:
            self.main = (name, metric_of(name) or THE_JOB)
        if verdict is not None:
            return self._metric_problem(name, verdict)
        if not name.startswith("job_status"):
            return Problem(name, short_name(name), sentence.replace("`", ""))
        workload = self.state.workload
        if self.history is not None:
            failed = [(job.uuid, job.job_status != JobStatus.SUCCESS) for job in self.history.jobs]
            self.streaks[THE_JOB] = streak_of(self.run.key, failed)
        log = log_of(self.state.folder, workload.attempts, self.log_lines) if self.log_lines else None
        short, headline = job_words(workload, log.error if log else "")
        return Problem(name, short, headline, tuple(job_facts(workload, headline)), log=log)

    def _metric_problem(self, name: str, verdict: Verdict) -> Problem:
        history, picture, reference = None, None, None
        now = as_stored(verdict, self.run, self.state.workload.ended_at or datetime.now(UTC))
        if self.warehouse is not None and self.detailed < MAX_DETAILED_METRICS:
            self.detailed += 1
            history = MetricHistory.load(self.warehouse, self.run, verdict.metric)
            reference = history.reference(now)
            self.streaks[verdict.metric] = streak = history.streak(now, reference)
            attributes = self.history.attributes if self.history is not None else {}
            self.level_changes.append(level_change(now, history, streak.first_failed, attributes))
            if self.node is not None:
                self.level_changes.append(self.node.sentence(verdict))
            if history.values:
                curve = next((one for one in self.state.sweeps if f"{SWEEP}{one.name}" == verdict.metric), None)
                place = Place(self.run.key, self.run.test, now.timestamp)
                before = curves_before(self.warehouse, place, [now])[now.metric] if curve else ()
                picture = picture_of(self.detailed, now, history, curve, before)
        short, headline = metric_words(name, verdict, reference)
        facts = [*metric_facts(verdict, history)]
        if (costs := _regression_costs(self.state, [verdict.metric])) and NO_BOOK not in costs[0]:
            facts.append(Fact("costs", costs[0]))
        return Problem(name, short, headline, tuple(facts), picture)

    def _start(self, streak: Streak, history: TestHistory) -> Start:
        if streak not in self.starts:
            self.starts[streak] = Start.of(streak, self.run, self.state.folder, history)
        return self.starts[streak]

    def first_look(self) -> str:
        """What to do first about the main problem: by its kind, and by the runs before."""
        name, subject = self.main
        if not name:
            return ""
        advice = advice_on(name, self.state, metric_of(name))
        streak = self.streaks.get(subject)
        if streak is None or self.history is None:
            return advice
        look = self._start(streak, self.history).first_look()
        others = [other for other, each in self.streaks.items() if each == streak and other != subject]
        same = f" The same holds for {', '.join(others)}." if others else ""
        return " ".join(filter(None, (advice, f"{look}{same}")))

    def start(self) -> str:
        """Since when the main problem is there, and what changed, for the subject."""
        streak = self.streaks.get(self.main[1])
        if streak is None or self.history is None:
            return ""
        if self.main[1] == THE_JOB:  # runs that failed for another reason do not count
            own = self.state.workload
            first = next((job for job in self.history.jobs if job.uuid == streak.first_failed), None)
            if first is not None and (first.job_status, first.failure_reason) != (own.status, own.failure_reason):
                return ""
        return self._start(streak, self.history).in_subject()

    def suspects(self) -> tuple[str, ...]:
        """When the other problems started, earlier changes of levels, and what slows a node or a host down."""
        if self.history is None:
            return ()
        others: dict[Streak, list[str]] = {}  # problems with the same streak share a sentence
        for name, streak in self.streaks.items():
            if streak != self.streaks.get(self.main[1]):
                others.setdefault(streak, []).append(name)
        started = (self._start(streak, self.history).sentence(names) for streak, names in others.items())
        return (*started, *filter(None, self.level_changes), *straggler(self.state.goodput))


def recovery_of(
    incident: Incident,
    run: Run,
    workload: Workload,
    verdicts: Mapping[str, Verdict],
    history: TestHistory | None,
    warehouse: Warehouse | None,
) -> tuple[str, str, tuple[str, ...], tuple[Fact, ...]]:
    """The headline of a recovery, after how long it is, sentences, and each metric that was broken."""
    reasons = tuple(dict.fromkeys((*incident.reported, *incident.reasons)))
    now: list[Fact] = []
    short = ""
    for metric in dict.fromkeys(filter(None, map(metric_of, reasons))):
        verdict = verdicts.get(metric)
        if verdict is not None and verdict.value is not None:
            value, required = value_and_requirement(verdict.value, verdict.bounds or Bounds(), verdict.unit)
            looked = warehouse if len(now) < MAX_DETAILED_METRICS else None
            was = _broken_value(verdict, run, incident, looked) if looked else None
            before = "" if was is None else f", was {readable([was, verdict.value], verdict.unit)[0]}"
            must_be = f", must be {required}" if verdict.bounds is not None else ""
            short = short or f"{cut_name(metric)} {value}{before or must_be or ' again'}"
            now.append(Fact(metric, f"{value}{before}{must_be}" if before or must_be else f"{value} again"))
    job = any(reason.startswith("job_status") for reason in reasons)
    headline = short or ("the job succeeds again" if job else "the run passes again")
    shown = [short_name(reason) for reason in reasons[:MAX_NAMES]]
    lasted, since = _how_long(incident, run, workload, history)
    more = f" and {len(reasons) - MAX_NAMES:,} more" if len(reasons) > MAX_NAMES else ""
    sentences = [f"It was broken {f'for {lasted}, ' if lasted else ''}{since}: {', '.join(shown)}{more}."]
    if incident.acknowledged_by:
        sentences.append(f"Acknowledged by {incident.acknowledged_by}{': ' + incident.note if incident.note else ''}.")
    return headline, f" after {lasted}" if lasted else "", tuple(sentences), tuple(now)


def _broken_value(verdict: Verdict, run: Run, incident: Incident, warehouse: Warehouse) -> float | None:
    """The value farthest from the one of a run that was broken since the incident began."""
    found = []
    for value in reversed(MetricHistory.load(warehouse, run, verdict.metric).values):
        if value.outcome in BROKEN and value.value is not None:
            found.append(value.value)
        if value.run_key == incident.run_keys[0]:
            break
    return max(found, key=lambda one: abs(one - (verdict.value or 0.0)), default=None)


def _how_long(incident: Incident, run: Run, workload: Workload, history: TestHistory | None) -> tuple[str, str]:
    """For how long the test was broken, in how many runs and since when: `4 days`, `in 4 runs, since TIME`."""
    jobs = [job for job in history.jobs if job.uuid != run.key] if history is not None else []
    keys, since, number = [job.uuid for job in jobs], incident.opened_at, ""
    if first := next((key for key in incident.run_keys if key in keys), ""):
        at = keys.index(first)
        since, runs = jobs[at].timestamp, len(jobs) - at
        number = f"in {runs} run{'s' if runs > 1 else ''}, "
    until = workload.ended_at
    seconds = (until - since).total_seconds() if until is not None else 0.0
    lasted = duration(seconds) if seconds >= 60 else ""
    return lasted, f"{number}since {since.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _faults(state: RunState, verdicts: Mapping[str, Verdict]) -> Iterator[str]:
    recovery = verdicts.get(RECOVERY)
    faults = state.collected.faults if state.collected else ()
    for sentence in fault_sentences(faults, recovery.reference if recovery and recovery.baseline_points else None):
        yield f"Planned fault: {sentence}"


def _regression_costs(state: RunState, metrics: Iterable[str]) -> list[str]:
    """The weekly cost of the regression of each metric, or why it is missing, as far as that is known."""
    metadata = state.efficiency.metadata if state.efficiency else {}
    return [text for metric in metrics if (text := metadata.get(f"{REGRESSION_METADATA}{metric}"))]


def cost_of_incident(state: RunState, problems: Iterable[str]) -> str:
    """The weekly cost of the regression of a run, or `missing` with the reason; empty if no metric is broken."""
    metrics = [metric for problem in problems if (metric := metric_of(problem))]
    if not metrics or state.efficiency is None:
        return ""
    return largest_cost(_regression_costs(state, metrics)) or NOT_A_TIME


def _links(run: Run, workload: Workload, dashboard_url: str) -> Iterator[Fact]:
    # with another path of the dashboard, the address of Airflow's own pages is unknown
    airflow, found, rest = dashboard_url.rpartition("/ml-metrics")
    if found and not rest:
        yield Fact("tasks", "the run in Airflow", f"{airflow}/dags/{quote(run.dag_id)}/runs/{quote(run.run_id)}")
    if workload.logs_link:
        yield Fact("logs", "the logs of the workload", workload.logs_link)
    yield Fact("every run", f"of {run.test}", page_of_test(dashboard_url, run.test))


def buttons_of(
    test: str, run_key: str, kind: MessageKind, dashboard_url: str, acts: tuple[Act, ...] = (Act.ACKNOWLEDGE,)
) -> tuple[Fact, ...]:
    """Links to the run and to the pages on which acts are confirmed. Opening a link changes nothing."""
    open_run = Fact("open the run", "Open the run", page_of_run(dashboard_url, run_key))
    if kind in {MessageKind.RECOVERED, MessageKind.WARNING}:
        return open_run, Fact("every run", "Every run", page_of_test(dashboard_url, test))
    pages = {act: page_of_incident(dashboard_url, test, run_key, act) for act in acts}
    return (open_run, *(Fact(act.label.lower(), act.label, page) for act, page in pages.items()))


def warnings_of(test: TestDefinition, state: RunState) -> Iterator[str]:
    """The warnings of the collector and the test file, and metrics that should alert but have no condition."""
    yield from state.collected.warnings if state.collected else ()
    yield from state.efficiency.warnings if state.efficiency else ()
    with suppress(MlMetricsError, OSError):  # the file was removed or broken since the run
        yield from load_file(test.source).warnings if test.source else ()
    if state.workload.status is JobStatus.SUCCESS and state.judgement:
        for verdict in state.judgement.verdicts:
            if verdict.outcome is Outcome.SKIPPED and not verdict.rule and verdict.reason:
                yield f"{verdict.metric}: {verdict.reason}"
