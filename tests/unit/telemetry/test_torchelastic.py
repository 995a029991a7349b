"""Programs written for torchelastic run with only the import changed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import ml_metrics_telemetry as telemetry

ADD_AND_PUBLISH = """
import time
import torchelastic.metrics as metrics

metrics.configure(metrics.ConsoleMetricHandler(), group = "torchelastic")
metrics.configure(metrics.ConsoleMetricHandler(), group = "my_app")

def calculate():
    time.sleep(0.01)

def my_method():
    ms = metrics.getStream(group="my_app")
    start = time.time()
    calculate()
    end = time.time()
    ms.add_value("calculate_latency", int(end - start))

my_method()
"""
NOTHING_CONFIGURED = "\n".join(line for line in ADD_AND_PUBLISH.splitlines() if "configure" not in line)
CUSTOM_HANDLER = """
import torchelastic.metrics as metrics

class StdoutMetricHandler(metrics.MetricHandler):
    def emit(self, metric_data):
        print(
            f"[{metric_data.timestamp}][{metric_data.group_name}]: {metric_data.name}={metric_data.value}"
        )

metrics.configure(StdoutMetricHandler(), group="my_app")
metrics.getStream("my_app").add_value("my_metric", 7)
metrics.getStream("other").add_value("my_metric", 8)
"""
PROF = """
import torch.distributed.elastic.metrics as metrics

metrics.configure(metrics.ConsoleMetricHandler(), "foobar")

@metrics.prof
def foo():
    pass

class Bar():

    @metrics.prof(group="foobar")
    def baz(self):
        raise ValueError("no")

foo()
metrics.configure(metrics.ConsoleMetricHandler())
foo()
try:
    Bar().baz()
except ValueError:
    pass
"""
OLDER_NAMES = """
import time
import torch.distributed.elastic.metrics as metrics

metrics.initialize_metrics(metrics.MetricsConfig({"service": "none"}))
metrics.configure(metrics.ConsoleMetricHandler())

@metrics.profile("my_group")
def work():
    return metrics.get_elapsed_time_ms(time.time())

assert work() >= 0
metrics.put_metric("one", 1)
metrics.put_metric(metric_name="two", metric_value=2, metric_group="g")
metrics.publish_metric("g", "three", 3)
metrics.getStream("g").add_value(metric_name="four", metric_value=4)
metrics.MetricStream("g", metrics.ConsoleMetricHandler()).add_value("five", 5)
"""
PROGRAMS = {
    "add and publish": (ADD_AND_PUBLISH, ["[my_app]: calculate_latency=0"]),
    "nothing configured": (NOTHING_CONFIGURED, []),
    "a custom handler": (CUSTOM_HANDLER, ["[my_app]: my_metric=7"]),
    "prof": (
        PROF,
        [
            "[torchelastic]: program.foo.success=1",
            "[torchelastic]: program.foo.duration.ms=",
            "[foobar]: Bar.baz.failure=1",
            "[foobar]: Bar.baz.duration.ms=",
        ],
    ),
    "older names": (
        OLDER_NAMES,
        [
            "[my_group]: work.success=1",
            "[my_group]: work.duration.ms=",
            "[torchelastic]: one=1",
            "[g]: two=2",
            "[g]: three=3",
            "[g]: four=4",
            "[g]: five=5",
        ],
    ),
}


@pytest.mark.parametrize(("program", "printed"), PROGRAMS.values(), ids=PROGRAMS)
def test_a_program_runs_with_only_the_import_changed(
    tmp_path: Path, project: Path, program: str, printed: list[str]
) -> None:
    changed, times = re.subn(
        r"import (torchelastic|torch\.distributed\.elastic)\.metrics", "import ml_metrics_telemetry", program
    )
    assert times == 1
    (tmp_path / "program.py").write_text(changed)
    done = subprocess.run(
        [sys.executable, "-S", "-W", "error", "-c", "import program"],
        cwd=tmp_path,
        env={"PYTHONPATH": f"{tmp_path}:{project / 'plugins'}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) == len(printed)
    for line, expected in zip(lines, printed, strict=True):
        assert re.fullmatch(r"\[\d+\.\d+\]" + re.escape(expected) + r"[\d.e-]*", line), line


def test_every_public_name_of_torch_exists() -> None:
    theirs = {
        "ConsoleMetricHandler", "MetricData", "MetricHandler", "MetricsConfig", "NullMetricHandler", "configure",
        "getStream", "get_elapsed_time_ms", "initialize_metrics", "prof", "profile", "publish_metric", "put_metric",
    }  # fmt: skip
    assert theirs <= set(telemetry.__all__) <= set(vars(telemetry))


def test_handlers_never_raise(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """torch's own streams call `emit` without catching errors: one would end its agent."""
    for handler in (telemetry.JsonLinesMetricHandler(tmp_path), telemetry.TensorBoardMetricHandler(tmp_path)):
        for odd in ("text", None, [], 1j, object()):
            handler.emit(telemetry.MetricData(1.0, "torchelastic", "x", odd))  # type: ignore[arg-type]
        handler.flush()
    assert caplog.text.count("leaves out torchelastic/x") == 2
