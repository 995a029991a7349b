"""Handlers of metric streams: the console, JSON lines and TensorBoard."""

from __future__ import annotations

import json
import math
import multiprocessing
import resource
import signal
import threading
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

import ml_metrics_telemetry as telemetry
from ml_metrics_telemetry import handlers

if TYPE_CHECKING:
    from pathlib import Path


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "telemetry.jsonl").read_text().splitlines()]


def test_the_console_prints_one_line_per_value(capsys: pytest.CaptureFixture[str]) -> None:
    handler = telemetry.ConsoleMetricHandler()
    handler.emit(telemetry.MetricData(1574213883.4182858, "my_app", "my_metric", 7))
    handler.emit(telemetry.MetricData(1.0, "two\nlines", "x", 1))
    assert capsys.readouterr().out == "[1574213883.4182858][my_app]: my_metric=7\n[1.0][two\\nlines]: x=1\n"


def test_json_lines_contain_the_added_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ML_METRICS_RUN_DIR", str(tmp_path))
    handler = telemetry.JsonLinesMetricHandler()
    telemetry.configure(handler)
    stream = telemetry.get_stream('a "group"\nwith lines')
    import numpy as np

    for value in (1, 2.5, True, np.float32(0.5), np.array(3), math.nan, math.inf, 10**400, Fraction(1, 4)):
        stream.add_value("x", value)  # type: ignore[arg-type]  # as users do
    handler.flush()
    assert [line["value"] for line in lines(tmp_path)] == [1, 2.5, 1, 0.5, 3, None, None, None, 0.25]
    assert lines(tmp_path)[0]["group"] == 'a "group"\nwith lines'


@pytest.mark.parametrize("value", ["text", None, [1, 2], {}, b"bytes", 1j])
def test_values_that_are_not_numbers_are_dropped(tmp_path: Path, caplog: pytest.LogCaptureFixture, value: Any) -> None:
    handler = telemetry.JsonLinesMetricHandler(tmp_path)
    telemetry.configure(handler)
    telemetry.get_stream("app").add_value("x", value)
    telemetry.get_stream("app").add_value("y", 1)
    handler.flush()
    assert [line["name"] for line in lines(tmp_path)] == ["y"]
    assert "JsonLinesMetricHandler" in caplog.text


def test_a_handler_without_a_folder_logs_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    telemetry.configure(
        telemetry.FanOutMetricHandler(handlers.JsonLinesMetricHandler(), handlers.TensorBoardMetricHandler())
    )
    telemetry.get_stream("app").add_value("x", 1)
    assert caplog.text.count("telemetry has no folder") == 2


def test_after_a_full_disk_no_value_is_lost(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    handler = telemetry.JsonLinesMetricHandler(tmp_path)
    telemetry.configure(handler)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
        for value in range(100):
            telemetry.get_stream("app").add_value("x", value)
        handler.flush()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, previous)
    assert caplog.text.count("cannot be written now") == 1
    handler.flush()
    assert [line["value"] for line in lines(tmp_path)] == list(range(100))


def _work(folder: str, worker: int) -> None:
    handler = telemetry.JsonLinesMetricHandler(folder)
    telemetry.configure(handler)
    for value in range(200):
        telemetry.get_stream("app").add_value(f"worker{worker}", value)


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_threads_and_forked_workers_lose_no_value(tmp_path: Path) -> None:
    _work(str(tmp_path), 0)
    context = multiprocessing.get_context("fork")
    workers: list[Any] = [context.Process(target=_work, args=(str(tmp_path), index)) for index in (1, 2)]
    workers += [threading.Thread(target=_work, args=(str(tmp_path), index)) for index in (3, 4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    telemetry.JsonLinesMetricHandler(tmp_path).flush()
    found: dict[str, list[float]] = {}
    for line in lines(tmp_path):
        found.setdefault(line["name"], []).append(line["value"])
    assert found == {f"worker{index}": list(range(200)) for index in range(5)}


def test_all_streams_share_one_open_file(tmp_path: Path) -> None:
    from pathlib import Path as Folder

    for index in range(50):
        telemetry.configure(telemetry.JsonLinesMetricHandler(tmp_path), group=f"g{index}")
        telemetry.get_stream(f"g{index}").add_value("x", index)
    telemetry.JsonLinesMetricHandler(tmp_path).flush()
    held = [
        link
        for link in Folder("/proc/self/fd").iterdir()
        if link.is_symlink() and str(tmp_path) in str(link.readlink())
    ]
    assert len(held) <= 1
    assert len(lines(tmp_path)) == 50


def test_tensorboard_reads_the_added_values(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    handler = telemetry.TensorBoardMetricHandler(tmp_path)
    for value in (1.5, math.nan, 1e300, -3):
        handler.emit(telemetry.MetricData(1000.0, "grüppe", "x" * 200, value))
    handler.flush()
    found = EventAccumulator(str(tmp_path), size_guidance={"scalars": 0})
    found.Reload()
    values = found.Scalars("grüppe/" + "x" * 200)
    assert [one.step for one in values] == [0, 1, 2, 3]
    assert repr([one.value for one in values]) == "[1.5, nan, inf, -3.0]"
    assert values[0].wall_time == 1000.0
