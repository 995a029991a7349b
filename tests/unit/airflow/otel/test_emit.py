"""Runs in OpenTelemetry: what a real collector receives, and what becomes of a run if there is none."""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ml_metrics.airflow.otel import emit as otel
from ml_metrics.airflow.otel.emit import emit
from servers.otlp import GrpcCollector, HttpCollector, attributes
from unit.airflow.otel.decided_run import EPOCH, RUN, TEST, decided_run

PROJECT = Path(__file__).parents[4]
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture(autouse=True)
def time_for_a_slow_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otel, "EXPORT_SECONDS", 60.0)


@pytest.fixture(params=[HttpCollector, GrpcCollector])
def collector(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    server = request.param()
    turn_on(monkeypatch, server.address, "grpc" if request.param is GrpcCollector else "http/protobuf")
    yield server
    server.stop()


def turn_on(monkeypatch: pytest.MonkeyPatch, address: str, protocol: str) -> None:
    monkeypatch.setenv("AIRFLOW__TRACES__OTEL_ON", "True")
    monkeypatch.setenv("AIRFLOW__METRICS__OTEL_ON", "True")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)


def test_a_collector_has_the_run_as_a_trace_with_its_real_times(
    collector: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "nightly")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=ml")
    assert emit(TEST, RUN, decided_run(tmp_path), None)
    spans = {span.span_id: span for span in collector.received.spans}
    shown = [
        (
            span.name,
            spans[span.parent_span_id].name if span.parent_span_id else "",
            attributes(span).get("ml_metrics.attempt"),
            (span.start_time_unix_nano - EPOCH * 1e9) / 1e9,
            (span.end_time_unix_nano - EPOCH * 1e9) / 1e9,
        )
        for span in sorted(spans.values(), key=lambda one: (one.start_time_unix_nano, -one.end_time_unix_nano))
    ]
    root, *parts = shown
    assert parts == [
        ("attempt", "run maxtext", 1, 10, 90),
        ("start", "attempt", None, 10, 15),
        ("tpu_initialization", "attempt", None, 15, 40),
        ("steps", "attempt", None, 40, 80),
        ("infrastructure_recovery_from_disruption", "attempt", None, 80, 131),
        ("queue", "run maxtext", 2, 100, 110),
        ("pull", "run maxtext", 2, 110, 130),
        ("attempt", "run maxtext", 2, 130, 200),
        ("restore", "attempt", None, 131, 140),
        ("steps", "attempt", None, 140, 180),
        ("save", "attempt", None, 180, 190),
        ("custom", "attempt", None, 190, 200),
    ]
    assert root[:4] == ("run maxtext", "", None, 10)
    assert abs(root[4] + EPOCH - time.time()) < 60
    (whole,) = [span for span in spans.values() if not span.parent_span_id]
    known = attributes(whole)
    assert {
        name: known[name] for name in ("ml_metrics.measure.goodput", "ml_metrics.cost.usd", "ml_metrics.attempts")
    } == {
        "ml_metrics.measure.goodput": pytest.approx(80 / 185 * 100),
        "ml_metrics.cost.usd": 12.5,
        "ml_metrics.attempts": 2,
    }
    assert known["test.case.name"] == "maxtext"
    assert known["test.case.result.status"] == "fail"
    assert known["container.image.id"] == f"sha256:{'a' * 64}"
    assert known["cicd.pipeline.run.url.full"].endswith(f"run={RUN.key}")
    assert (known["ml_metrics.verdicts.fail"], known["ml_metrics.verdicts.pass"]) == (1, 1)
    assert (whole.status.code, whole.status.message) == (2, "loss: 0.7 is too much")
    (event,) = whole.events
    assert attributes(event)["ml_metrics.metric"] == "loss"
    (custom,) = [span for span in spans.values() if span.name == "custom"]
    assert attributes(custom)["ml_metrics.measure.goodput.event"] == "eval\\nof a hostile workload"
    assert collector.received.services == {"nightly"}
    assert all("ml" in headers.values() for headers in collector.received.headers)


def test_a_collector_has_the_figures_of_the_newest_run_as_gauges(collector: Any, tmp_path: Path) -> None:
    assert emit(TEST, RUN, decided_run(tmp_path, passed=True), None)
    gauges = collector.received.gauges
    assert {name: point.as_double or point.as_int for name, point in gauges.items()} == {
        ("ml_metrics.run.passed", "maxtext"): 1,
        ("ml_metrics.run.duration", "maxtext"): 70,
        ("ml_metrics.run.queue.duration", "maxtext"): 30,
        ("ml_metrics.run.goodput", "maxtext"): pytest.approx(80 / 185 * 100),
        ("ml_metrics.run.cost", "maxtext", "USD"): 12.5,
        ("ml_metrics.run.badput", "maxtext", "tpu_initialization"): 25,
        ("ml_metrics.run.verdicts", "maxtext", "pass"): 2,
    }
    (root,) = [span for span in collector.received.spans if not span.parent_span_id]
    exemplars = [one for point in gauges.values() for one in point.exemplars]
    assert {(one.trace_id, one.span_id) for one in exemplars} == {(root.trace_id, root.span_id)}
    assert len(exemplars) == len(gauges)


def test_a_task_that_is_tried_again_sends_the_same_spans(collector: Any, tmp_path: Path) -> None:
    state = decided_run(tmp_path)
    assert emit(TEST, RUN, state, None)
    first = {(span.trace_id, span.span_id) for span in collector.received.spans}
    assert emit(TEST, RUN, state, None)
    assert {(span.trace_id, span.span_id) for span in collector.received.spans} == first
    assert len(collector.received.spans) == 2 * len(first) == 2 * 13


def test_the_run_is_part_of_the_trace_that_airflow_gave_to_the_task(collector: Any, tmp_path: Path) -> None:
    carrier = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
    assert emit(TEST, RUN, decided_run(tmp_path), carrier)
    spans = collector.received.spans
    assert {span.trace_id.hex() for span in spans} == {TRACE}
    (root,) = [span for span in spans if span.name == "run maxtext"]
    assert root.parent_span_id.hex() == PARENT


def test_what_airflow_does_not_sample_has_gauges_only(collector: Any, tmp_path: Path) -> None:
    assert emit(TEST, RUN, decided_run(tmp_path), {"traceparent": f"00-{TRACE}-{PARENT}-00"})
    assert collector.received.spans == []
    assert collector.received.gauges


def test_a_trial_has_a_trace_and_no_gauges(collector: Any, tmp_path: Path) -> None:
    assert emit(TEST, RUN, decided_run(tmp_path, trial=True), None)
    assert {attributes(one).get("ml_metrics.trial") for one in collector.received.spans} == {True, None}
    assert collector.received.gauges == {}


@pytest.mark.parametrize("variable", ["OTEL_SDK_DISABLED=true", "OTEL_TRACES_EXPORTER=none"])
def test_a_variable_turns_traces_off(
    collector: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(*variable.split("="))
    assert emit(TEST, RUN, decided_run(tmp_path), None)
    assert collector.received.spans == []
    assert bool(collector.received.gauges) is ("SDK" not in variable)


def test_the_older_settings_of_airflow_name_a_collector_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = HttpCollector()
    host, port = server.address.removeprefix("http://").split(":")
    values = {"otel_on": "True", "otel_host": host, "otel_port": port, "otel_service": "older"}
    for section in ("TRACES", "METRICS"):
        for key, value in values.items():
            monkeypatch.setenv(f"AIRFLOW__{section}__{key.upper()}", value)
    try:
        assert emit(TEST, RUN, decided_run(tmp_path), None)
        assert len(server.received.spans) == 13
        assert server.received.gauges
        assert server.received.services == {"older"}
    finally:
        server.stop()


def test_a_collector_that_hangs_is_waited_for_a_few_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server = GrpcCollector(hangs=True)
    turn_on(monkeypatch, server.address, "grpc")
    monkeypatch.setattr(otel, "EXPORT_SECONDS", 1.0)
    try:
        assert not emit(TEST, RUN, decided_run(tmp_path), None)
        assert server.asked.wait(60)
    finally:
        server.stop()
    assert "the run is not in OpenTelemetry: the OpenTelemetry collector took too long" in caplog.text


def test_a_collector_that_is_away_or_refuses_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        turn_on(monkeypatch, f"http://127.0.0.1:{unused.getsockname()[1]}", "http/protobuf")
        monkeypatch.setattr(otel, "EXPORT_SECONDS", 1.0)
        assert not emit(TEST, RUN, decided_run(tmp_path), None)
    monkeypatch.setattr(otel, "EXPORT_SECONDS", 60.0)  # it answers, however slow this machine is
    refusing = HttpCollector(status=400)
    turn_on(monkeypatch, refusing.address, "http/protobuf")
    try:
        assert not emit(TEST, RUN, decided_run(tmp_path), None)
    finally:
        refusing.stop()
    assert "the collector did not accept the traces" in caplog.text


def test_an_exporter_that_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    turn_on(monkeypatch, "http://127.0.0.1:1", "carrier-pigeon")
    with caplog.at_level(logging.WARNING):
        assert not emit(TEST, RUN, decided_run(tmp_path), None)
    assert "the protocol grpc or http/protobuf" in caplog.text


def test_nothing_of_opentelemetry_is_imported_while_it_is_off(tmp_path: Path) -> None:
    program = f"""
import sys
from pathlib import Path
from unit.airflow.otel.decided_run import RUN, TEST, decided_run
from ml_metrics.airflow.otel.emit import emit
assert emit(TEST, RUN, decided_run(Path({str(tmp_path)!r})), None)
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=PROJECT / "tests"
    )
    assert done.stdout.strip() == "[]"
