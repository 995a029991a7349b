"""Devices while a program runs: samples by a process of its own, from servers, files and programs of every kind."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fsspec
import pytest

import ml_metrics_telemetry as telemetry
from ml_metrics.config.collection import MetricCollectionConfig
from ml_metrics.measure import collect_run
from ml_metrics.store.run_folder import RunFolder
from ml_metrics_telemetry.device_sources import LONGEST_LINE, SampleError, Source, dcgm_lines, source_of
from ml_metrics_telemetry.device_writer import DeviceWriter
from ml_metrics_telemetry.devices import main, record_devices
from servers.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SITE = str(Path(telemetry.__file__).parents[1])
TEXT = b"""\
# HELP DCGM_FI_DEV_GPU_TEMP GPU temperature (in C).
DCGM_FI_DEV_GPU_TEMP{gpu="0",Hostname="n1"} 61
DCGM_FI_DEV_GPU_TEMP{gpu="1",Hostname="n1"} 71
DCGM_FI_DEV_MEMORY_TEMP{gpu="0",Hostname="n1"} 9223372036854775794
DCGM_FI_DEV_POWER_USAGE{gpu="0",Hostname="n1"} 650.25
"""
PROGRAM = """
import sys, time
from ml_metrics_telemetry.devices import record_devices

record_devices(sys.argv[1], every=0.1)
print("training", flush=True)
sys.stdin.readline()
"""
SLOWEST = 60.0


class Exporter(ThreadingHTTPServer):
    """A server on this machine that answers as the test wants."""

    daemon_threads = True

    def __init__(self, answers: list[Callable[[BaseHTTPRequestHandler], None]]) -> None:
        self.answers, self.requests = answers, 0
        self.ended = threading.Event()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(handler) -> None:
                self.requests += 1
                self.answers[min(self.requests, len(self.answers)) - 1](handler)

            def log_message(handler, *_: Any) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server_port}/metrics"


@contextmanager
def exporter(*answers: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[Exporter]:
    with Exporter(list(answers)) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server
        server.ended.set()
        server.shutdown()


def sends(text: bytes, status: int = 200) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(text)))
        handler.end_headers()
        handler.wfile.write(text)

    return answer


def hangs(handler: BaseHTTPRequestHandler) -> None:
    handler.server.ended.wait(SLOWEST)  # type: ignore[attr-defined]


def drips(handler: BaseHTTPRequestHandler) -> None:
    """Each byte arrives in time, and the answer never ends."""
    handler.send_response(200)
    handler.end_headers()
    while not handler.server.ended.wait(0.05):  # type: ignore[attr-defined]
        handler.wfile.write(b"#")


def drips_headers(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.0 200 OK\r\nX: ")
    while not handler.server.ended.wait(0.05):  # type: ignore[attr-defined]
        handler.wfile.write(b"#")


def floods(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    while not handler.server.ended.is_set():  # type: ignore[attr-defined]
        handler.wfile.write(TEXT * 1000)


def redirects(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(302)
    handler.send_header("Location", "/elsewhere")
    handler.end_headers()


@contextmanager
def sampling(source: str, folder: str, **more: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "ml_metrics_telemetry.devices", source, "--every", "0.1", "--timeout", "0.5"]
    environment = {**os.environ, "ML_METRICS_RUN_DIR": folder, "PYTHONPATH": SITE, **more}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def reported_by(process: subprocess.Popen[str]) -> str:
    process.kill()
    return process.communicate(timeout=SLOWEST)[1]


def wait_until(holds: Callable[[], Any]) -> None:
    deadline = time.monotonic() + SLOWEST
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def samples(folder: Path, pattern: str = "dcgm.*.prom") -> bytes:
    return b"".join(path.read_bytes() for path in folder.glob(pattern))


def collected(folder: Path) -> dict[str, float]:
    found = collect_run(MetricCollectionConfig(), RunFolder(str(folder)), None)
    return {metric.name: metric.value for metric in found.metrics}


def test_samples_of_a_server_become_metrics(tmp_path: Path) -> None:
    with exporter(sends(TEXT), sends(TEXT.replace(b" 71", b" 91"))) as server:
        with sampling(server.address, str(tmp_path)):
            wait_until(lambda: server.requests > 3)
        wait_until(lambda: samples(tmp_path).count(b" 91\n"))
    found = collected(tmp_path)
    assert found["gpu/temperature_max"] == 91
    assert found["gpu/power_average"] == 650.25
    assert "gpu/memory_temperature_max" not in found, "9223372036854775794 is DCGM's code for `not available`"


@pytest.mark.parametrize(
    ("trouble", "reported"),
    [
        (hangs, "no whole answer within 0.5 s"),
        (drips, "no whole answer within 0.5 s"),
        (drips_headers, "no whole answer within 0.5 s"),
        (floods, "larger than 4 MiB"),
        (sends(random.Random(1).randbytes(100_000)), "no line of the DCGM exporter"),
        (sends(b""), "no line of the DCGM exporter"),
        (sends(TEXT, 500), "HTTP Error 500"),
        (redirects, "HTTP Error 302"),
    ],
    ids=["hangs", "drips", "drips headers", "floods", "garbage", "nothing", "fails", "redirects"],
)
def test_a_bad_answer_is_reported_once_and_the_next_one_counts(
    trouble: Callable[[BaseHTTPRequestHandler], None], reported: str, tmp_path: Path
) -> None:
    with exporter(trouble, trouble, sends(TEXT)) as server, sampling(server.address, str(tmp_path)) as process:
        wait_until(lambda: samples(tmp_path))
        errors = reported_by(process)
    assert errors.count("\n") == 1
    assert server.address in errors
    assert reported in errors
    whole = samples(tmp_path)
    assert set(whole.splitlines()) <= set(TEXT.splitlines())


def test_a_server_that_is_gone_and_comes_back(tmp_path: Path) -> None:
    port = free_port()
    with sampling(f"http://127.0.0.1:{port}/metrics", str(tmp_path)) as process:
        assert process.stderr is not None
        assert "Connection refused" in process.stderr.readline()
        with socket.create_server(("127.0.0.1", port)) as server:
            server.accept()[0].close()
        assert process.stderr.readline(), "cut off, which is another problem"
        assert process.poll() is None
    assert not list(tmp_path.iterdir())


def test_proxies_of_the_environment_are_not_used(tmp_path: Path) -> None:
    with (
        exporter(sends(TEXT)) as server,
        sampling(server.address, str(tmp_path), http_proxy="http://127.0.0.1:1", no_proxy=""),
    ):
        wait_until(lambda: samples(tmp_path))


@pytest.mark.parametrize("how", ["ends", "killed"])
@pytest.mark.parametrize("answer", [sends(TEXT), hangs], ids=["answers", "hangs"])
def test_the_samples_end_with_the_program(
    how: str, answer: Callable[[BaseHTTPRequestHandler], None], tmp_path: Path
) -> None:
    environment = {**os.environ, "ML_METRICS_RUN_DIR": str(tmp_path), "PYTHONPATH": SITE}
    with exporter(answer) as server:
        command = [sys.executable, "-c", PROGRAM, server.address]
        with subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as program:
            assert program.stdin is not None
            assert program.stdout is not None
            assert program.stdout.readline() == "training\n"
            wait_until(lambda: server.requests and (answer is hangs or samples(tmp_path)))
            (child,) = children(program.pid)
            if how == "killed":
                program.kill()
            else:
                print(file=program.stdin, flush=True)
            assert program.wait(SLOWEST) == (-signal.SIGKILL if how == "killed" else 0)
        wait_until(lambda: not running(child))


def examples(language: str) -> str:
    page = (Path(SITE).parent / "docs" / "sources.md").read_text().partition("## GPUs and TPUs")[2]
    return page.partition(f"```{language}\n")[2].partition("```")[0]


@pytest.mark.parametrize("language", ["sh", "python"])
def test_the_examples_of_the_page(language: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("input()\n")
    with exporter(sends(TEXT)) as server:
        example = examples(language).replace("http://localhost:9400/metrics", server.address)
        assert server.address in example
        program = example if language == "sh" else example + "input()\n"
        environment = {**os.environ, "ML_METRICS_RUN_DIR": str(tmp_path), "PYTHONPATH": SITE}
        shell = ["sh", "-c"] if language == "sh" else [sys.executable, "-c"]
        with subprocess.Popen(
            [*shell, program], env=environment, cwd=tmp_path, stdin=subprocess.PIPE, text=True, start_new_session=True
        ) as started:
            wait_until(lambda: samples(tmp_path))
            started.communicate("\n", timeout=SLOWEST)
            assert started.returncode == 0
        with suppress(ProcessLookupError):  # the container would end now, and the loop of `sh` with it
            os.killpg(started.pid, signal.SIGKILL)
    assert collected(tmp_path)["gpu/temperature_max"] == 71


def children(parent: int) -> list[int]:
    done = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True)
    rows = (line.split() for line in done.stdout.splitlines())
    return [int(pid) for pid, of in rows if int(of) == parent]


def running(pid: int) -> bool:
    done = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return bool(done.stdout.strip()) and not done.stdout.startswith("Z")


def test_recording_never_raises_in_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("ML_METRICS_RUN_DIR", raising=False)
    record_devices("http://127.0.0.1:1/metrics")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    record_devices("http://127.0.0.1:1/metrics", folder=tmp_path)
    assert ["not recorded" in message for message in caplog.messages] == [True, True]
    caplog.clear()
    monkeypatch.setenv("LOCAL_RANK", "1")
    record_devices("http://127.0.0.1:1/metrics", folder=tmp_path)
    assert not caplog.messages, "one process of a host records"


def test_samples_in_a_bucket(bucket: str) -> None:
    with exporter(sends(TEXT)) as server, sampling(server.address, bucket):
        filesystem = fsspec.filesystem("gs")

        def first() -> Any:
            filesystem.invalidate_cache()
            return filesystem.glob(f"{bucket}/dcgm.*.prom")

        wait_until(first)
        kept = filesystem.cat_file(first()[0])
    assert set(kept.splitlines()) == set(TEXT.splitlines()[1:])


def test_samples_of_a_file_that_is_rewritten(tmp_path: Path) -> None:
    path = tmp_path / "exporter.txt"
    with sampling(str(path), str(tmp_path)) as process:
        assert process.stderr is not None
        assert "No such file" in process.stderr.readline()
        path.write_bytes(TEXT)
        wait_until(lambda: samples(tmp_path))
    assert collected(tmp_path)["gpu/temperature_max"] == 71


def test_samples_of_tpu_info(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    program = programs / "tpu-info"
    program.write_text(
        "#!/bin/sh\n"
        'if mkdir "$0.ran"; then sleep 100; fi\n'  # the first one hangs
        "echo 'TPU Runtime Utilization'\n"
        "echo '│ Chip │ HBM Usage (GiB)       │ Duty cycle │'\n"
        "echo '│ 0    │ 18.45 GiB / 31.25 GiB │     50.00% │'\n"
    )
    program.chmod(0o755)
    run = tmp_path / "run"
    with sampling("tpu-info", str(run), PATH=f"{programs}:{os.environ['PATH']}") as process:
        wait_until(lambda: samples(run, "tpu-info.*.txt"))
        assert "tpu-info: TimeoutError" in reported_by(process)
    assert collected(run)["tpu/duty_cycle_average"] == 50


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["ftp://host/metrics"], "neither http://HOST:PORT/PATH, nor a path, nor tpu-info"),
        (["http://somebody:secret@host/metrics"], "has a user or a password"),
        (["http://host:port/metrics"], "port"),
        (["http://host/metrics", "--every", "0"], "argument --every"),
        (["http://host/metrics", "--folder", ""], "pass --folder, or set ML_METRICS_RUN_DIR"),
    ],
)
def test_wrong_arguments(arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as status:
        main(["--folder", str(tmp_path), *arguments])
    assert status.value.code == 2
    errors = capsys.readouterr().err
    assert reason in errors
    assert "secret" not in errors


def test_secrets_in_the_query_of_an_address_are_not_reported() -> None:
    assert source_of("http://host:9400/metrics?token=secret").label == "http://host:9400/metrics"


def test_cut_and_foreign_lines_are_left_out() -> None:
    long = b"DCGM_FI_DEV_GPU_TEMP" + b"x" * LONGEST_LINE + b"\n"
    kept = b"DCGM_FI_DEV_GPU_TEMP 61\n"
    assert dcgm_lines(b"go_threads 5\n" + long + kept + b"DCGM_FI_DEV_GPU_TEMP 6") == kept
    with pytest.raises(SampleError):
        dcgm_lines(kept[:-1])


def test_a_full_file_ends_the_samples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = Source("exporter", "dcgm", ".prom", lambda: b"DCGM_FI_X 1\n")
    writer = DeviceWriter(source, str(tmp_path), 5.0, most_bytes=30)
    assert [writer.sample() for _ in range(3)] == [True, True, False]
    assert samples(tmp_path) == b"DCGM_FI_X 1\n" * 2
    assert "is full: devices are no longer recorded" in capsys.readouterr().err


def test_what_could_not_be_written_is_written_later(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    numbers = iter(range(9))
    source = Source("exporter", "dcgm", ".prom", lambda: b"DCGM_FI_X %d\n" % next(numbers))
    folder = tmp_path / "run"
    folder.write_text("a file where the folder belongs")
    writer = DeviceWriter(source, str(folder), 5.0)
    assert all(writer.sample() for _ in range(3))
    assert capsys.readouterr().err.count("FileExistsError") == 1
    folder.unlink()
    assert all(writer.sample() for _ in range(2))
    assert samples(folder) == b"DCGM_FI_X 0\nDCGM_FI_X 1\n"
