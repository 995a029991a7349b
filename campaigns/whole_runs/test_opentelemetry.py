"""Whole runs with OpenTelemetry as Airflow's own settings turn it on, and a real collector."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_home import Home
from servers.otlp import GrpcCollector, attributes

pytestmark = [pytest.mark.e2e]

TRAINING = """
import time
from ml_metrics_telemetry import GoodputRecorder
recorder = GoodputRecorder("job", "log", True)
recorder.record_job_start_time()
for step in range(6):
    recorder.record_step_start_time(step)
    time.sleep(0.05)
recorder.record_job_end_time()
recorder.flush()
"""


@pytest.fixture
def hanging() -> Iterator[GrpcCollector]:
    server = GrpcCollector(hangs=True)
    yield server
    server.stop()


def on(address: str) -> dict[str, str]:
    return {
        "AIRFLOW__TRACES__OTEL_ON": "True",
        "AIRFLOW__METRICS__OTEL_ON": "True",
        "OTEL_EXPORTER_OTLP_ENDPOINT": address,
        "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
        "OTEL_SERVICE_NAME": "nightly",
    }


def test_a_run_is_a_trace_in_the_collector_of_airflow(home: Home) -> None:
    home.add_test("trained", command=["python3", "-c", TRAINING])
    collector = GrpcCollector()
    try:
        done = home.airflow("dags", "test", "trained", **on(collector.address))
    finally:
        collector.stop()
    assert done.returncode == 0, done.stdout[-3000:]
    spans = collector.received.spans
    (run,) = [one for one in spans if one.name == "run trained"]
    assert attributes(run)["ml_metrics.job_status"] == "success"
    with home.warehouse() as warehouse:
        (job,) = warehouse.runs.newest("trained")
    assert attributes(run)["ml_metrics.run_key"] == job.uuid
    ours = {one.name: one for one in spans if one.trace_id == run.trace_id}
    assert {"queue", "pull", "attempt", "start", "steps"} <= set(ours)
    order = [ours[name].start_time_unix_nano for name in ("queue", "pull", "attempt", "start", "steps")]
    assert order == sorted(order)
    assert 0.1 < (ours["steps"].end_time_unix_nano - ours["steps"].start_time_unix_nano) / 1e9 < 30
    gauges = {name for name, *_ in collector.received.gauges}
    assert {"ml_metrics.run.passed", "ml_metrics.run.duration", "ml_metrics.run.goodput"} <= gauges
    # Airflow's own spans, by the same settings; `airflow dags test` gives no trace context to its tasks
    assert {"task_run.assert_success", "dag_run.trained"} <= {one.name for one in spans}
    assert not run.parent_span_id


def test_a_collector_that_hangs_changes_no_run(home: Home, hanging: GrpcCollector) -> None:
    home.add_test("hangs", command=["python3", "-c", "print('done')"])
    done = home.airflow("dags", "test", "hangs", **on(hanging.address))
    assert done.returncode == 0, done.stdout[-3000:]
    assert "the run is not in OpenTelemetry: the OpenTelemetry collector took too long" in done.stdout + done.stderr
    with home.warehouse() as warehouse:
        (job,) = warehouse.runs.newest("hangs")
    assert job.job_status == "success"


def test_nothing_is_sent_while_airflow_sends_nothing(home: Home) -> None:
    home.add_test("quiet", command=["true"])
    collector = GrpcCollector()
    try:
        off = {**on(collector.address), "AIRFLOW__TRACES__OTEL_ON": "False", "AIRFLOW__METRICS__OTEL_ON": "False"}
        assert home.airflow("dags", "test", "quiet", **off).returncode == 0
    finally:
        collector.stop()
    assert collector.received.requests == []
