"""The trace and the gauges of one run, made and sent with OpenTelemetry's own library.

The ids of spans come from the run and the names of its periods: a task that is tried again sends the same spans.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ml_metrics.errors import AlertError
from ml_metrics.otel.attributes import TEST, attributes_of, costs_of, goodput_of, verdicts_of
from ml_metrics.otel.destination import Signal, resource
from ml_metrics.otel.periods import ATTEMPT, MAX_TEXT, Period, periods_of
from ml_metrics.values import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan

    from ml_metrics.model import Run
    from ml_metrics.otel.attributes import Decided

SCOPE = "ml_metrics"
MAX_EVENTS = 20
NANOSECONDS = 1_000_000_000


class NotAcceptedError(AlertError):
    """The collector did not accept a signal."""


def export_run(decided: Decided, carrier: Mapping[str, str], exporters: Mapping[Signal, Any]) -> None:
    """Send the signals of a run that have an exporter. Raises `NotAcceptedError`, or what an exporter raises."""
    spans = _Spans(decided, carrier)
    if Signal.TRACES in exporters and spans.ended:
        _export(Signal.TRACES, exporters[Signal.TRACES], spans.ended)
    if Signal.METRICS in exporters and not decided.state.trial:
        _export(Signal.METRICS, exporters[Signal.METRICS], _gauges(decided, spans.within_run))


def _export(signal: Signal, exporter: Any, content: Any) -> None:
    try:
        if exporter.export(content).name != "SUCCESS":
            raise NotAcceptedError(f"the collector did not accept the {signal}")
    finally:
        exporter.shutdown()


class _Spans(SpanProcessor):
    """The spans of one run, kept until they are exported together."""

    def __init__(self, decided: Decided, carrier: Mapping[str, str]) -> None:
        self.ended: list[ReadableSpan] = []
        """Empty if the trace is not sampled."""
        self._ids = _Ids(decided.run)
        provider = TracerProvider(resource=resource(Signal.TRACES), id_generator=self._ids, shutdown_on_exit=False)
        provider.add_span_processor(self)
        self._tracer = provider.get_tracer(SCOPE)
        self.within_run = self._add(decided, TraceContextTextMapPropagator().extract(carrier))
        """The context of the span of the whole run."""

    def on_end(self, span: ReadableSpan) -> None:
        self.ended.append(span)

    def _add(self, decided: Decided, parent: Context) -> Context:
        whole, *parts = periods_of(decided.state, decided.at)
        root = self._start(whole, parent, attributes_of(decided), name=f"run {decided.run.test}")
        within_run = trace.set_span_in_context(root, parent)
        attempts: dict[int, Context] = {}
        for part in parts:
            context = within_run if part.name == ATTEMPT else attempts.get(part.attempt, within_run)
            span = self._start(part, context, part.attributes)
            if part.name == ATTEMPT:
                attempts[part.attempt] = trace.set_span_in_context(span, within_run)
            span.end(_nanoseconds(part.end))
        _tell_result(root, decided)
        root.end(_nanoseconds(whole.end))
        return within_run

    def _start(self, period: Period, context: Context, attributes: Mapping[str, Any], name: str = "") -> trace.Span:
        self._ids.next_of(period)
        start = _nanoseconds(period.start)
        return self._tracer.start_span(name or period.name, context, attributes=attributes, start_time=start)


class _Ids(IdGenerator):
    """Ids that are the same whenever the trace of a run is made."""

    def __init__(self, run: Run) -> None:
        self._key, self._current = run.key, ""
        self._count: dict[str, int] = {}

    def next_of(self, period: Period) -> None:
        """Let the next span be that of a period. Periods with the same name and attempt are numbered."""
        name = f"{period.name} {period.attempt}"
        self._count[name] = self._count.get(name, 0) + 1
        self._current = f"{name} {self._count[name]}"

    def generate_span_id(self) -> int:
        return self._hash(f"span {self._key} {self._current}", 8)

    def generate_trace_id(self) -> int:
        return self._hash(f"trace {self._key}", 16)

    @staticmethod
    def _hash(text: str, size: int) -> int:
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:size], "big") or 1


def _tell_result(root: trace.Span, decided: Decided) -> None:
    """Add the result of a run to its span, with the conditions that are broken."""
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
