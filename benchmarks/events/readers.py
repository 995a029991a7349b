"""The readers of event files to compare. Each reads a folder completely and aggregates every tag.

As a program, this reads one folder with one reader and prints its CPU seconds: without imports, and whole.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

STRATEGIES = ("final", "max", "min", "average", "median")


def ours(folder: str, *, verify: bool = False) -> int:
    """This project, with the functions that `ml-metrics collect` calls."""
    from ml_metrics.config.collection import MetricCollectionConfig, Strategy
    from ml_metrics.core.limits import UNLIMITED
    from ml_metrics.measure import collect_run
    from ml_metrics.store.run_folder import RunFolder

    config = MetricCollectionConfig(
        default_aggregation_strategies=tuple(Strategy(name) for name in STRATEGIES), use_run_name_prefix=True
    )
    with _measured():
        collected = collect_run(config, RunFolder(folder), None, verify=verify, limits=UNLIMITED)
    written = (metric for metric in collected.metrics if metric.strategy in STRATEGIES)
    return sum(metric.points for metric in written) // len(STRATEGIES)


def bytes_only(folder: str) -> int:
    """Only read the bytes, which is the lower limit for readers of whole files."""
    block = memoryview(bytearray(1 << 20))
    with _measured():
        for path in _event_files(folder):
            with path.open("rb", buffering=0) as file:
                while file.readinto(block):
                    pass
    return 0


def event_accumulator(folder: str) -> int:
    """TensorBoard's EventAccumulator without sampling."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    def series() -> Iterator[tuple[list[float], list[float]]]:
        for run in sorted({path.parent for path in _event_files(folder)}):
            events = EventAccumulator(str(run), size_guidance=dict.fromkeys(("scalars", "tensors"), 0) | {"images": 1})
            events.Reload()
            for tag in events.Tags()["scalars"]:
                points = events.Scalars(tag)
                yield [point.wall_time for point in points], [point.value for point in points]
            for tag in events.Tags()["tensors"]:
                tensors = events.Tensors(tag)
                yield (
                    [one.wall_time for one in tensors],
                    [np.frombuffer(one.tensor_proto.tensor_content, "<f4").item() for one in tensors],
                )

    return _aggregated(series)


def tbparse(folder: str) -> int:
    """tbparse, with pandas data frames."""
    from tbparse import SummaryReader

    def series() -> Iterator[tuple[list[float], list[float]]]:
        reader = SummaryReader(folder, pivot=False, extra_columns={"wall_time", "dir_name"})
        for frame in (reader.scalars, reader.tensors):
            if len(frame):
                for _, group in frame.groupby(["dir_name", "tag"]):
                    yield group["wall_time"].to_numpy(), group["value"].to_numpy(dtype=float)

    return _aggregated(series)


def data_server(folder: str, *, checksum: bool = False) -> int:
    """TensorBoard's data server, written in Rust: its CPU time and that of its client."""
    import grpc
    import tensorboard_data_server
    from tensorboard.data.proto import data_provider_pb2 as messages
    from tensorboard.data.proto.data_provider_pb2_grpc import TensorBoardDataProviderStub

    runs = len({path.parent for path in _event_files(folder)})
    with tempfile.TemporaryDirectory() as scratch:
        port_file = Path(scratch, "port")
        command = [tensorboard_data_server.server_binary(), f"--logdir={folder}", "--reload=once", "--port=0",
                   f"--port-file={port_file}", "--samples-per-plugin=scalars=all,images=1",
                   "--checksum" if checksum else "--no-checksum"]  # fmt: skip
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as server:
            try:
                _wait(lambda: port_file.exists() and port_file.read_text().strip())
                channel = grpc.insecure_channel(
                    f"localhost:{port_file.read_text().strip()}", [("grpc.max_receive_message_length", -1)]
                )
                stub = TensorBoardDataProviderStub(channel)
                names = messages.PluginFilter(plugin_name="scalars")
                _wait(lambda: _is_idle(server.pid) and _known_runs(stub, messages, names) == runs)

                def series() -> Iterator[tuple[Any, Any]]:
                    wanted = messages.ReadScalarsRequest(plugin_filter=names, downsample={"num_points": 1 << 30})
                    for run in stub.ReadScalars(wanted).runs:
                        for tag in run.tags:
                            yield np.array(tag.data.wall_time), np.array(tag.data.value)

                return _aggregated(series, extra=lambda: _cpu_of(server.pid))
            finally:
                server.kill()


READERS: dict[str, Callable[[str], int]] = {
    "ours": ours,
    "ours --verify": lambda folder: ours(folder, verify=True),
    "bytes only": bytes_only,
    "EventAccumulator": event_accumulator,
    "tbparse": tbparse,
    "data server": data_server,
    "data server --checksum": lambda folder: data_server(folder, checksum=True),
}


class _Measured:
    """Measures the CPU seconds of this process inside a `with` block."""

    seconds = 0.0
    extra = 0.0

    def __enter__(self) -> None:
        self.seconds -= time.process_time()

    def __exit__(self, *_: object) -> None:
        self.seconds += time.process_time()


_MEASURED = _Measured()


def _measured() -> _Measured:
    return _MEASURED


def _aggregated(series: Callable[[], Iterable[tuple[Any, Any]]], extra: Callable[[], float] = lambda: 0.0) -> int:
    """Aggregate the series of a peer in the fastest way, and return the number of points."""
    points = 0
    with _measured():
        for wall_time, values in series():
            times, numbers = np.asarray(wall_time), np.asarray(values)
            if not len(numbers):  # the data server lists tags whose values it does not read
                continue
            _ = numbers[np.argmax(times)], numbers.max(), numbers.min(), numbers.mean(), np.median(numbers)
            points += len(numbers)
    _MEASURED.extra = extra()
    return points


def _event_files(folder: str) -> list[Path]:
    return sorted(Path(folder).rglob("*tfevents*"))


def _known_runs(stub: Any, messages: Any, names: Any) -> int:
    return len(stub.ListScalars(messages.ListScalarsRequest(plugin_filter=names)).runs)


def _is_idle(pid: int) -> bool:
    before = _cpu_of(pid)
    time.sleep(0.3)
    return before > 0 and _cpu_of(pid) == before


def _cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _wait(ready: Callable[[], object], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.02)


def _memory() -> dict[str, int]:
    """Return the peak memory of this process in megabytes."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {"peak_mb": int(status["VmHWM"].split()[0]) // 1024}


if __name__ == "__main__":
    count = READERS[sys.argv[1]](sys.argv[2])
    seconds = _MEASURED.seconds + _MEASURED.extra
    whole = time.process_time() + _MEASURED.extra
    print(json.dumps({"seconds": seconds, "whole": whole, "points": count, **_memory()}))
