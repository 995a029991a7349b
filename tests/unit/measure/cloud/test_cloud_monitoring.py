from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import pytest
from ml_goodput_measurement.src import monitoring as older_monitoring

from ml_metrics import ConfigError
from ml_metrics.core.errors import StorageError
from ml_metrics.measure.cloud import CloudMonitoring, GCPOptions
from ml_metrics.measure.cloud import monitoring as ours
from ml_metrics.measure.goodput import Part
from servers.google_cloud import Monitoring
from unit.measure.cloud import older
from unit.measure.goodput import older_library
from unit.measure.goodput.measuring import measured
from unit.measure.goodput.traces import JOB, custom, entry, in_time, job_end, job_start, span, steps

WHERE = {"project_id": "project", "location": "us-central1-a", "replica_id": "3", "acc_type": "TPU-v5p"}
ENTRIES = [
    *(*job_start(0), *span("tpu_init", 0, 5), *span("data_loading", 5, 8), *steps(0, 4, 10)),
    *in_time([*custom("eval", 52, 55), *steps(5, 9, 63)]),
    *(*job_start(120), *span("data_loading", 121, 123), *steps(7, 12, 130), *job_end(190)),
]

Read = dict[tuple[Any, ...], float]


def sent(
    entries: list[dict[str, Any]] = ENTRIES, *parts: Part, windows: tuple[float, ...] = (), **options: Any
) -> None:
    report = measured(entries, windows=windows)
    CloudMonitoring(JOB, GCPOptions(**{**WHERE, **options}), slice_efficiency=True).write(report, parts or set(Part))


def read_back() -> Read:
    """Return the value of each series in the service, read with the real client."""
    listed = older.monitoring_client().list_time_series(request={"name": "projects/project", "filter": ""})
    found: Read = {}
    for series in listed:
        (point,) = series.points
        assert series.resource.type == "compute.googleapis.com/Workload"
        assert point.interval.start_time is None
        assert abs(point.interval.end_time.timestamp() - time.time()) < 60
        value = point.value
        kind = type(value).pb(value).WhichOneof("value")
        labels = (*sorted(series.metric.labels.items()), *sorted(series.resource.labels.items()))
        key = (series.metric.type.rpartition("/")[2], kind, labels)
        assert key not in found, key
        found[key] = getattr(value, kind)
    return found


def names(found: Read) -> set[str]:
    return {key[0] for key in found}


def sent_by_the_older_library(entries: list[dict[str, Any]], **options: Any) -> Read:
    """What its own functions send for the same log."""
    config = older.config(JOB, **{**WHERE, **options})
    with older_library.calculator(entries, 500.0) as calculator:
        calculator.get_job_goodput(include_badput_breakdown=True)
        calculator.get_step_deviation()
        details = calculator.get_job_goodput_details()
    older_monitoring._upload_goodput_metrics_to_gcm(older.metrics_sender("project"), details, config)
    return read_back()


@pytest.mark.parametrize("more", [{}, {"cluster_name": "tests"}])
def test_the_series_are_those_of_ml_goodput_measurement(monkeypatch: pytest.MonkeyPatch, more: dict[str, str]) -> None:
    found = []
    for send in (lambda: sent_by_the_older_library(ENTRIES, **more), lambda: (sent(**more), read_back())[1]):
        with Monitoring().served() as address:
            monkeypatch.setenv("MONITORING_EMULATOR_HOST", address)
            found.append(send())
    theirs, own = found
    assert len(theirs) == 16
    assert own.keys() == theirs.keys()
    assert own == {key: pytest.approx(value) for key, value in theirs.items()}


def test_windows_are_those_of_ml_goodput_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [*job_start(0), *steps(0, 19, 0), *custom("eval", 195, 198), *job_end(200)]
    with Monitoring().served() as address:
        monkeypatch.setenv("MONITORING_EMULATOR_HOST", address)
        with older_library.calculator(entries, 200.0) as calculator:
            window = [datetime.fromtimestamp(moment, UTC) for moment in (-1, 200)]
            details = calculator.get_interval_metric_details(*window)
        details["interval_size"] = 3600
        older_monitoring._upload_interval_goodput_metrics_to_gcm(
            older.metrics_sender("project"), details, older.config(JOB, **WHERE)
        )
        theirs = read_back()
    with Monitoring().served() as address:
        monkeypatch.setenv("MONITORING_EMULATOR_HOST", address)
        sent(entries, Part.WINDOWS, windows=(3600.0,))
        own = read_back()
    assert names(own) == {"interval_goodput", "interval_badput"}
    # an event in the last step is badput here, and productive there
    assert {key for key in own if "CUSTOM_BADPUT_EVENTS.EVAL" not in str(key)} == theirs.keys()


@pytest.mark.usefixtures("monitoring")
def test_slice_efficiency_of_an_elastic_job_is_sent() -> None:
    counts = entry("elastic_slice_counts_timestamp", 0, active_slices=3, total_slices=4, available_slices=4)
    sent([*job_start(0), counts, *span("elastic_reinit", 1, 5), *steps(0, 4, 10), *job_end(60)], windows=(30.0,))
    found = {(key[0], dict(key[2])["window_type"]): value for key, value in read_back().items() if "slice" in key[0]}
    assert found == {
        ("stepping_slice_efficiency", "CUMULATIVE"): 0.75,
        ("available_slice_efficiency", "CUMULATIVE"): 1,
        ("stepping_slice_efficiency", "INTERVAL"): 0.75,
        ("available_slice_efficiency", "INTERVAL"): 1,
    }
    badput = {dict(key[2])["badput_source"]: value for key, value in read_back().items() if key[0] == "badput_time"}
    assert badput["ELASTIC_REINITIALIZATION"] == 4


GOODPUT = {"goodput_time", "badput_time", "disruptions", "max_productive_steps", "total_elapsed_time", "performance"}


@pytest.mark.usefixtures("monitoring")
@pytest.mark.parametrize(
    ("switches", "expected"),
    [
        ({"enable_gcp_step_deviation_metrics": False}, GOODPUT | {"interval_goodput", "interval_badput"}),
        ({"enable_gcp_goodput_metrics": False}, {"step_time_deviation", "performance"}),
        ({"enable_gcp_goodput_metrics": False, "enable_gcp_step_deviation_metrics": False}, set()),
    ],
)
def test_goodput_and_deviation_can_be_disabled_separately(switches: dict[str, bool], expected: set[str]) -> None:
    sent(windows=(60.0,), **switches)
    assert names(read_back()) == expected


def test_performance_has_two_meanings_in_ml_goodput_measurement(monitoring: Monitoring) -> None:
    monitoring.seconds_apart = 0
    sender, config = older.metrics_sender("project"), older.config(JOB, **WHERE)
    with older_library.calculator(ENTRIES, 500.0) as calculator:
        deviations = calculator.get_step_deviation()
        details = calculator.get_job_goodput_details()
    older_monitoring._upload_goodput_metrics_to_gcm(sender, details, config)
    older_monitoring._send_step_deviation_metric_to_gcp(sender, deviations, config)
    found = [one.points[0].value.double_value for one in monitoring.series if one.metric.type.endswith("performance")]
    assert found == [details["ideal_step_time"], sum(deviations.values()) / len(deviations)]


@pytest.mark.usefixtures("monitoring")
def test_performance_is_the_ideal_step_time_or_else_the_deviation() -> None:
    deviation = measured(ENTRIES).deviation
    assert deviation is not None
    sent()
    assert _value("performance") == pytest.approx(deviation.ideal)
    sent(enable_gcp_goodput_metrics=False, replica_id="4")
    assert _value("performance", "4") == pytest.approx(deviation.absolute.mean())


def _value(name: str, replica: str = "3") -> float:
    (value,) = [v for key, v in read_back().items() if key[0] == name and dict(key[2])["replica_id"] == replica]
    return value


def test_unknown_options_are_errors() -> None:
    with pytest.raises(TypeError, match="enable_goodput"):
        GCPOptions(enable_goodput=False)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="'enable_goodput' is not an option"):
        CloudMonitoring(JOB, {"enable_goodput": False})
    with pytest.raises(ConfigError, match="must be True or False"):
        GCPOptions(enable_gcp_goodput_metrics="False")  # type: ignore[arg-type]


def test_many_series_are_sent_in_several_requests(monitoring: Monitoring) -> None:
    events = [
        one for number in range(250) for one in custom(f"event{number}", 10.01 + number / 100, 10.02 + number / 100)
    ]
    sent([*job_start(0), *steps(0, 1, 0), *events, *steps(2, 4, 20), *job_end(50)])
    assert monitoring.requests == 2
    assert len([key for key in read_back() if "CUSTOM_BADPUT_EVENTS" in str(key)]) == 250


def test_points_of_a_series_are_sent_at_the_minimum_interval(
    monitoring: Monitoring, monkeypatch: pytest.MonkeyPatch
) -> None:
    monitoring.seconds_apart = 0.2
    monkeypatch.setattr(ours, "MIN_INTERVAL_SECONDS", 0.25)
    exporter = CloudMonitoring(JOB, GCPOptions(**WHERE))  # type: ignore[arg-type]
    for _ in range(3):
        exporter.write(measured(ENTRIES), {Part.GOODPUT})
    assert monitoring.requests == 3


def test_rejected_series_are_an_error(monitoring: Monitoring) -> None:
    sent()
    with pytest.raises(StorageError, match="not too often"):
        sent()
    assert monitoring.requests == 2


def test_missing_options_are_an_error_outside_google_cloud(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GCE_METADATA_HOST", "127.0.0.1:1")
    with pytest.raises(StorageError, match="project_id and location"):
        CloudMonitoring(JOB, GCPOptions()).write(measured(ENTRIES), set(Part))
