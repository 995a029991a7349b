"""The periods of a run: queue, pull, each attempt, and the parts of its time. Pure functions of its documents."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ml_metrics.airflow.otel.emit import Signal, resource
from ml_metrics.alerts import page_of_run
from ml_metrics.core.errors import AlertError
from ml_metrics.core.kinds import cost_in
from ml_metrics.core.settings import Settings
from ml_metrics.core.text import printable
from ml_metrics.core.values import digest_in, finite
from ml_metrics.measure.goodput import CUSTOM_PREFIX, PRODUCTIVE, Bucket

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan

    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.core.model import Run, Workload
    from ml_metrics.pipeline import RunState


RUN, QUEUE, PULL, ATTEMPT, START = "run", "queue", "pull", "attempt", "start"
NAMES = {
    PRODUCTIVE: "steps",
    Bucket.UNPRODUCTIVE_CHECKPOINT_SAVE_TIME: "save",
    Bucket.UNPRODUCTIVE_CHECKPOINT_RESTORE_TIME: "restore",
    Bucket.PROGRAM_STARTUP: "compile",
    Bucket.CUSTOM_BADPUT_EVENTS: "custom",
}
"""The names of what an attempt spends its time on. The others are those of the buckets of goodput."""
SPENT_ON = "ml_metrics.measure.goodput.bucket"
EVENT = "ml_metrics.measure.goodput.event"
MAX_TEXT = 200
LATEST = float(1 << 33)
"""A time in seconds since 1970 that every backend can store, in the year 2242."""


@dataclass(frozen=True, slots=True)
class Period:
    """A part of a run, in seconds since 1970."""

    name: str
    start: float
    end: float
    attributes: Mapping[str, Any] = field(default_factory=dict)
    attempt: int = 0
    """The attempt that it is a part of; 0 for what is before and between attempts."""


def periods_of(state: RunState, decided_at: float) -> list[Period]:
    """Return the periods of a run that was decided, the whole run first and attempts before their parts."""
    workload = state.workload
    attempts = list(_attempts(workload, decided_at))
    found = [*_before_the_start(workload, len(attempts)), *attempts, *_spent(state, attempts)]
    times = [time for one in found for time in (one.start, one.end)]
    whole = Period(RUN, min(times, default=decided_at), max([*times, decided_at]))
    return [whole, *found]


def _attempts(workload: Workload, now: float) -> Iterator[Period]:
    """Yield the attempts that ran. The end of one that is unknown is the start of the next."""
    times = [*workload.earlier, *([(workload.started_at, workload.ended_at)] if workload.started_at else [])]
    starts = [start.timestamp() for start, _ in times]
    for number, (start, end) in enumerate(times, 1):
        following = starts[number] if number < len(starts) else now
        ended = end.timestamp() if end else following
        yield Period(ATTEMPT, start.timestamp(), max(start.timestamp(), ended), {"ml_metrics.attempt": number}, number)


def _before_the_start(workload: Workload, attempts: int) -> Iterator[Period]:
    """Yield the waits of the last attempt for a node, and for its image."""
    number = {"ml_metrics.attempt": max(1, attempts if workload.started_at else workload.attempts)}
    queued, scheduled, started = workload.queued_at, workload.scheduled_at, workload.started_at
    has_node = scheduled or started
    yield from _between(QUEUE, queued, has_node or workload.ended_at, number)
    if scheduled:
        image = {"container.image.name": workload.image} if workload.image else {}
        yield from _between(PULL, scheduled, started or workload.ended_at, {**number, **image})


def _between(
    name: str, start: datetime | None, end: datetime | None, attributes: Mapping[str, Any]
) -> Iterator[Period]:
    """Yield a period if its times are known. Clocks of machines differ: one second too few is none at all."""
    if start is not None and end is not None:
        yield Period(name, start.timestamp(), max(start.timestamp(), end.timestamp()), attributes)


def _spent(state: RunState, attempts: list[Period]) -> Iterator[Period]:
    """Yield the parts of the attempts' time, as goodput measured it. A workload wrote these times."""
    timeline = (state.goodput or {}).get("timeline") or {}
    intervals = timeline.get("intervals") or []
    for number, interval in enumerate(intervals):
        start, end = float(interval["started_at"]), float(interval["ended_at"])
        if not 0 <= start <= end <= LATEST:
            continue
        attempt = next((one for one in reversed(attempts) if one.start <= start), None)
        if number == 0 and attempt is not None:
            yield Period(START, attempt.start, start, attempt=attempt.attempt)
        attributes = {SPENT_ON: str(interval["spent_on"])}
        if attributes[SPENT_ON].startswith(CUSTOM_PREFIX):  # what the workload calls an event: names of periods are few
            event = printable(attributes[SPENT_ON].removeprefix(CUSTOM_PREFIX))[:MAX_TEXT]
            attributes = {SPENT_ON: str(Bucket.CUSTOM_BADPUT_EVENTS), EVENT: event}
        name = NAMES.get(attributes[SPENT_ON], attributes[SPENT_ON])
        yield Period(name, start, end, attributes, attempt.attempt if attempt else 0)


TEST = "test.case.name"
GOODPUT = "goodput"


@dataclass(frozen=True, slots=True)
class Decided:
    """A run whose gate has decided."""

    test: TestDefinition
    run: Run
    state: RunState
    at: float
    """When, in seconds since 1970."""

    @property
    def reasons(self) -> tuple[str, ...]:
        return self.state.gate.reasons if self.state.gate else ()


def attributes_of(decided: Decided) -> dict[str, str | int | float | bool]:
    test, run, state = decided.test, decided.run, decided.state
    workload = state.workload
    found: dict[str, Any] = {
        TEST: run.test,
        "test.case.result.status": "fail" if decided.reasons else "pass",
        "cicd.pipeline.name": run.dag_id,
        "cicd.pipeline.run.id": run.run_id,
        "cicd.pipeline.run.url.full": page_of_run(Settings.load().dashboard_url, run.key),
        "airflow.dag_id": run.dag_id,
        "airflow.dag_run.run_id": run.run_id,
        "k8s.namespace.name": workload.namespace,
        "k8s.pod.name": workload.pod,
        "k8s.node.name": workload.nodes or workload.node,
        "container.image.name": workload.image,
        "container.image.id": digest_in(workload.image_digest or ""),
        "error.type": workload.failure_reason,
        "ml_metrics.run_key": run.key,
        "ml_metrics.deployment": run.deployment,
        "ml_metrics.accelerator": test.accelerator.name,
        "ml_metrics.owner": test.owner,
        "ml_metrics.job_status": str(workload.status),
        "ml_metrics.verdict": str(state.judgement.outcome) if state.judgement else None,
        "ml_metrics.attempts": workload.attempts,
        "ml_metrics.trial": bool(state.trial),
        "ml_metrics.measure.goodput": goodput_of(state),
        "ml_metrics.intervals.left_out": ((state.goodput or {}).get("timeline") or {}).get("left_out"),
        **{f"ml_metrics.cost.{currency.lower()}": value for currency, value in costs_of(state).items()},
        **{f"ml_metrics.verdicts.{outcome}": count for outcome, count in verdicts_of(state).items()},
    }
    return {name: _short(value) for name, value in found.items() if value is not None and value != ""}


def goodput_of(state: RunState) -> float | None:
    return finite(next((metric.value for metric in state.metrics if metric.name == GOODPUT), None))


def costs_of(state: RunState) -> dict[str, float]:
    """Return the cost of the run by currency; nothing if no price is known."""
    computed = state.efficiency.metrics if state.efficiency else ()
    found = {one.name: (cost_in(one.name), finite(one.value)) for one in computed}
    return {cost[0]: value for cost, value in found.values() if cost and not cost[1] and value is not None}


def verdicts_of(state: RunState) -> dict[str, int]:
    verdicts = state.judgement.verdicts if state.judgement else ()
    return dict(sorted(Counter(str(one.outcome) for one in verdicts).items()))


def _short(value: Any) -> Any:
    return printable(value)[:MAX_TEXT] if isinstance(value, str) else value


SCOPE = "ml_metrics"
MAX_EVENTS = 20
NANOSECONDS = 1_000_000_000


class NotAcceptedError(AlertError):
    """The collector did not accept a signal."""


def export_run(decided: Decided, carrier: Mapping[str, str], exporters: Mapping[Signal, Any]) -> None:
    spans, within_run = _spans(decided, carrier)
    if Signal.TRACES in exporters and spans:
        _export(Signal.TRACES, exporters[Signal.TRACES], spans)
    if Signal.METRICS in exporters and not decided.state.trial:
        _export(Signal.METRICS, exporters[Signal.METRICS], _gauges(decided, within_run))


def _export(signal: Signal, exporter: Any, content: Any) -> None:
    try:
        if exporter.export(content).name != "SUCCESS":
            raise NotAcceptedError(f"the collector did not accept the {signal}")
    finally:
        exporter.shutdown()


def _spans(decided: Decided, carrier: Mapping[str, str]) -> tuple[tuple[ReadableSpan, ...], Context]:
    """The spans of a run, none if the trace is not sampled, and the context of the whole run's."""
    parent, kept, ids = TraceContextTextMapPropagator().extract(carrier), InMemorySpanExporter(), _Ids(decided.run.key)
    provider = TracerProvider(resource=resource(Signal.TRACES), id_generator=ids, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    tracer, counts = provider.get_tracer(SCOPE), Counter[str]()

    def start(period: Period, context: Context, attributes: Mapping[str, Any], name: str = "") -> trace.Span:
        same = f"{period.name} {period.attempt}"
        counts[same] += 1
        ids.current = f"{same} {counts[same]}"
        at = _nanoseconds(period.start)
        return tracer.start_span(name or period.name, context, attributes=attributes, start_time=at)

    whole, *parts = periods_of(decided.state, decided.at)
    root = start(whole, parent, attributes_of(decided), f"run {decided.run.test}")
    within_run = trace.set_span_in_context(root, parent)
    attempts: dict[int, Context] = {}
    for part in parts:
        is_attempt = part.name == ATTEMPT
        span = start(part, within_run if is_attempt else attempts.get(part.attempt, within_run), part.attributes)
        if is_attempt:
            attempts[part.attempt] = trace.set_span_in_context(span, within_run)
        span.end(_nanoseconds(part.end))
    _tell_result(root, decided)
    root.end(_nanoseconds(whole.end))
    return kept.get_finished_spans(), within_run


class _Ids(IdGenerator):
    """Ids that are the same whenever the trace of a run is made."""

    def __init__(self, key: str) -> None:
        self.key, self.current = key, ""

    def generate_span_id(self) -> int:
        return self._hash(f"span {self.key} {self.current}", 8)

    def generate_trace_id(self) -> int:
        return self._hash(f"trace {self.key}", 16)

    @staticmethod
    def _hash(text: str, size: int) -> int:
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:size], "big") or 1


def _tell_result(root: trace.Span, decided: Decided) -> None:
    judgement = decided.state.judgement
    if decided.reasons:
        root.set_status(Status(StatusCode.ERROR, printable("; ".join(decided.reasons))[:MAX_TEXT]))
    else:
        root.set_status(Status(StatusCode.OK))
    broken = [one for one in (judgement.verdicts if judgement else ()) if one.broken]
    for one in broken[:MAX_EVENTS]:
        said = {
            "ml_metrics.metric": one.metric,
            "ml_metrics.outcome": str(one.outcome),
            "ml_metrics.reason": one.reason,
        }
        shown = {name: printable(text)[:MAX_TEXT] for name, text in said.items()}
        root.add_event("verdict", shown, timestamp=_nanoseconds(decided.at))


def _gauges(decided: Decided, within_run: Context) -> Any:
    """Return the gauges of the newest run of a test. Each names the trace of the run as its exemplar."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], resource=resource(Signal.METRICS), shutdown_on_exit=False)
    meter, state = provider.get_meter(SCOPE), decided.state

    def set_gauge(name: str, unit: str, value: float | None, **more: str) -> None:
        if value is not None:
            meter.create_gauge(f"ml_metrics.run.{name}", unit).set(value, {TEST: decided.run.test, **more}, within_run)

    set_gauge("passed", "1", 0 if decided.reasons else 1)
    set_gauge("duration", "s", state.workload.duration_seconds)
    set_gauge("queue.duration", "s", state.workload.queued_seconds)
    set_gauge("goodput", "%", goodput_of(state))
    for currency, cost in costs_of(state).items():
        set_gauge("cost", f"{{{currency}}}", cost, currency=currency)
    for bucket, seconds in ((state.goodput or {}).get("badput_seconds") or {}).items():
        set_gauge("badput", "s", float(seconds), bucket=str(bucket))
    for outcome, count in verdicts_of(state).items():
        set_gauge("verdicts", "{verdict}", count, outcome=outcome)
    return reader.get_metrics_data()


def _nanoseconds(seconds: float) -> int:
    return round(seconds * NANOSECONDS)
