"""Metric streams: values go to the handler of their group, whose errors never reach the program."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import ml_metrics_telemetry as telemetry
from ml_metrics_telemetry import streams

if TYPE_CHECKING:
    from pathlib import Path


class Kept(telemetry.MetricHandler):
    def __init__(self) -> None:
        self.data: list[telemetry.MetricData] = []

    def emit(self, metric_data: telemetry.MetricData) -> None:
        self.data.append(metric_data)


class Broken(telemetry.MetricHandler):
    def emit(self, metric_data: telemetry.MetricData) -> None:
        raise OSError(f"no room for {metric_data.name}")


def test_values_go_to_the_handler_of_their_group() -> None:
    everything, mine = Kept(), Kept()
    stream = telemetry.getStream("mine")
    telemetry.get_stream("other").add_value("lost", 0)
    telemetry.configure(everything)
    telemetry.configure(mine, group="mine")
    stream.add_value("latency", 1.5)
    telemetry.put_metric("other", 2, "their group")
    telemetry.put_metric("default", 3)
    assert [(one.group_name, one.name, one.value) for one in mine.data] == [("mine", "latency", 1.5)]
    assert [(one.group_name, one.value) for one in everything.data] == [("their group", 2), ("torchelastic", 3)]


def test_a_failing_handler_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    kept = Kept()
    telemetry.configure(telemetry.FanOutMetricHandler(Broken(), kept))
    for value in range(3):
        telemetry.get_stream("app").add_value("x", value)
    assert [one.value for one in kept.data] == [0, 1, 2]
    assert caplog.text.count("no room for x") == 1


def test_each_handler_of_a_fan_out_that_fails_is_named(caplog: pytest.LogCaptureFixture) -> None:
    class BrokenToo(Broken):
        pass

    telemetry.configure(telemetry.FanOutMetricHandler(Broken(), BrokenToo()), group="app")
    telemetry.get_stream("app").add_value("x", 1)
    assert "Broken: no room for x; BrokenToo: no room for x" in caplog.text


def test_a_reconfigured_handler_is_logged_again(caplog: pytest.LogCaptureFixture) -> None:
    broken = Broken()
    for _ in range(2):
        telemetry.configure(broken)
        telemetry.put_metric("x", 1)
    assert caplog.text.count("no room for x") == 2


def test_prof_measures_functions() -> None:
    kept = Kept()
    telemetry.configure(kept)

    @telemetry.prof
    def works() -> int:
        return 5

    @telemetry.prof(group="mine")
    def fails() -> None:
        raise KeyError

    assert works() == 5
    with pytest.raises(KeyError):
        fails()
    prefix = "test_prof_measures_functions.<locals>."
    names = [(one.group_name, one.name.removeprefix(prefix)) for one in kept.data]
    assert names == [
        ("torchelastic", "works.success"),
        ("torchelastic", "works.duration.ms"),
        ("mine", "fails.failure"),
        ("mine", "fails.duration.ms"),
    ]
    assert isinstance(kept.data[1].value, float)
    assert works.__name__ == "works"
    assert streams._name_of(json.dumps) == "json.dumps"
    assert streams._name_of(Kept.emit) == "Kept.emit"


def test_prof_measures_a_coroutine_to_its_end() -> None:
    kept = Kept()
    telemetry.configure(kept)

    @telemetry.prof
    async def sleeps() -> int:
        await asyncio.sleep(0.02)
        return 5

    assert asyncio.run(sleeps()) == 5
    assert kept.data[1].value >= 19


def test_importing_needs_the_standard_library_only(project: Path) -> None:
    program = (
        "import sys; import ml_metrics_telemetry; "
        "print(sorted({name.partition('.')[0] for name in sys.modules} - sys.stdlib_module_names))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", program],
        env={"PYTHONPATH": str(project / "plugins")},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert done.stdout.strip() == "['__main__', 'ml_metrics_telemetry']"
