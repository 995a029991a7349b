from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import ProtocolError

from ml_metrics.airflow.clusters.outcome import INDEX
from ml_metrics.airflow.operators import logs as module
from ml_metrics.airflow.operators.logs import HostLogs, known_secrets, lines_in, list_logs, save_logs
from ml_metrics.core.errors import StorageError
from ml_metrics.measure import ContainerLog, Role, Secrets, lines_of, read_logs
from ml_metrics.store.run_folder import RunFolder

BASE = ContainerLog(1, "base", Role.WORKLOAD, exit_code=1)
PROXY = ContainerLog(1, "proxy", Role.SIDECAR)
OpenLog = Callable[[str, ContainerLog], Iterable[bytes]]


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(str(tmp_path))


def saved(
    folder: RunFolder,
    open_log: OpenLog,
    *logs: ContainerLog,
    secrets: Secrets = Secrets(),  # noqa: B008
) -> list[ContainerLog]:
    return save_logs(folder, [("pod", log) for log in logs], open_log, secrets)


def test_the_last_lines_of_every_container_are_saved(folder: RunFolder) -> None:
    output = {"base": [b"one\ntw", b"o\n"], "proxy": [b""]}
    logs = saved(folder, lambda _, log: output[log.container], PROXY, BASE)
    assert [(log.container, log.saved, log.note) for log in logs] == [("base", True, ""), ("proxy", True, "")]
    assert lines_of(folder, logs[0]) == ("one", "two")
    assert Path(folder.path, "_ml_metrics/logs/attempt-1-base.log").read_text() == "one\ntwo\n"
    assert list_logs(folder, logs, Secrets()) == logs[0]
    assert read_logs(folder) == tuple(logs)


def test_a_log_api_that_hangs_holds_nothing(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FETCH_SECONDS", 0.2)
    over = threading.Event()

    def hangs(_: str, log: ContainerLog) -> Iterator[bytes]:
        yield b"the first line\n"
        if log.container == "base":
            over.wait(60)

    base, proxy = saved(folder, hangs, BASE, PROXY)
    over.set()
    assert base.note == "the cluster did not return the whole log within 0.2 s"
    assert lines_of(folder, base) == lines_of(folder, proxy) == ("the first line",)


def test_a_log_that_never_ends_is_bounded(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 1000)
    monkeypatch.setattr(module, "MAX_READ_BYTES", 1 << 20)
    secret = "a-known-secret"

    def endless(*_: Any) -> Iterator[bytes]:
        while True:
            yield secret.encode() * 10

    (log,) = saved(folder, endless, BASE, secrets=Secrets(frozenset({secret})))
    assert log.note.startswith("only the first 1 MiB of its last 100 lines were read")
    assert log.note.endswith("only 1 lines are saved: they are very long")
    text = Path(folder.path, "_ml_metrics/logs/attempt-1-base.log").read_text()
    assert len(text) < 3000
    assert "secret" not in text


def test_of_a_log_64_mebibytes_are_read(folder: RunFolder) -> None:
    pieces = iter([b"x" * (1 << 20)] * 70)
    (log,) = saved(folder, lambda *_: pieces, BASE)
    assert log.note.startswith("only the first 64 MiB of its last 100 lines were read")
    assert len(list(pieces)) == 5


def test_a_long_log_of_short_lines_is_saved_without_a_note(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 2000)
    (log,) = saved(folder, lambda *_: [b"step\n" * 100] * 50, BASE)
    assert (log.saved, log.note) == (True, "")
    assert lines_of(folder, log) == ("step",) * 100


def test_an_unreadable_log_is_a_note(folder: RunFolder) -> None:
    def refuses(*_: Any) -> Iterable[bytes]:
        error = ApiException(400, "Bad Request")
        error.body = '{"message": "container \\"base\\" is waiting to start\\u001b[31m"}'
        raise error

    (log,) = saved(folder, refuses, BASE)
    assert (log.saved, log.note) == (False, 'the log cannot be read: container "base" is waiting to start')
    assert list_logs(folder, [log], Secrets()) is None


def test_a_folder_that_cannot_be_written_is_a_note(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr(RunFolder, "write_file", full)
    (log,) = saved(folder, lambda *_: [b"line\n"], BASE)
    assert (log.saved, log.note) == (False, "the log could not be saved: the disk is full")


def test_a_container_that_never_started_is_not_requested(folder: RunFolder) -> None:
    def unexpected(*_: Any) -> Iterable[bytes]:
        raise AssertionError

    (log,) = saved(folder, unexpected, ContainerLog(1, "base", Role.WORKLOAD, note="its program never started"))
    assert (log.saved, log.note) == (False, "its program never started")


def test_failed_containers_come_first_if_there_are_too_many(folder: RunFolder) -> None:
    many = [ContainerLog(1, f"s{number}", Role.SIDECAR) for number in range(100)]
    logs = saved(folder, lambda *_: [b"x\n"], *many, BASE)
    assert logs[0].container == "base"
    assert sum(log.saved for log in logs) == module.MAX_LOGS
    assert logs[-1].note == "only 64 logs are saved"


POD: dict[str, Any] = {
    "spec": {
        "containers": [
            {
                "name": "base",
                "env": [
                    {"name": "API_KEY", "value": "literal-key"},
                    {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "a-secret", "key": "hf"}}},
                ],
                "envFrom": [{"secretRef": {"name": "whole"}}],
            }
        ]
    }
}


def test_variables_whose_values_only_the_cluster_knows_are_stated(folder: RunFolder) -> None:
    secrets = known_secrets([POD, POD])
    assert secrets.values == {"literal-key"}
    list_logs(folder, [BASE], secrets)
    (log,) = read_logs(folder)
    assert log.note == "values that are not known here are not masked: HF_TOKEN, all of whole"
    assert known_secrets([]).values == set()


STARTED, ENDED = "2026-01-02T03:04:05Z", "2026-01-02T03:05:05Z"
LINES = [f"2026-01-02T03:04:{second:02}Z line {second}\n".encode() for second in range(10, 20)]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.01)


def pod(host: int, *, ended: bool = False) -> dict[str, Any]:
    state = {"terminated": {"exitCode": 0, "startedAt": STARTED, "finishedAt": ENDED}}
    running = {"running": {"startedAt": STARTED}}
    status = {"containerStatuses": [{"name": "base", "state": state if ended else running}]}
    return {"metadata": {"name": f"p{host}", "annotations": {INDEX: str(host)}}, "status": status}


def files(folder: Path, names: list[str]) -> dict[str, str]:
    return {name: (folder / "_ml_metrics" / "logs" / name).read_text() for name in names}


def test_the_first_host_is_followed_and_all_logs_are_files(tmp_path: Path) -> None:
    logged: list[str] = []
    with HostLogs(lambda _: LINES[:2], logged.append) as logs:
        logs.follow([pod(0), pod(1)])
        logs.follow([pod(0, ended=True), pod(1, ended=True)])
        paths = logs.save(RunFolder(str(tmp_path)), 2, [])
    assert logged == ["[base] line 10", "[base] line 11"]
    text = "line 10\nline 11\n"
    assert files(tmp_path, paths) == {"attempt-2-host-0.log": text, "attempt-2-host-1.log": text}


def test_a_broken_stream_is_continued(tmp_path: Path) -> None:
    tries: list[int] = []
    whole = threading.Event()

    def breaks(_: str) -> Iterator[bytes]:
        tries.append(len(tries))
        for number, line in enumerate(LINES):
            if len(tries) < 4 and number == 3 * len(tries):
                raise ProtocolError("the API server went away")
            yield line
        whole.set()

    logged: list[str] = []
    with HostLogs(breaks, logged.append) as logs:
        logs.follow([pod(0)])
        assert whole.wait(30)
        paths = logs.save(RunFolder(str(tmp_path)), 1, [])
    assert logged == [f"[base] line {second}" for second in range(10, 20)], "each line once"
    assert files(tmp_path, paths)["attempt-1-host-0.log"].count("\n") == 10


def test_logs_of_hosts_that_are_not_followed_are_saved_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_FOLLOWED_HOSTS", 1)
    with HostLogs(lambda _: LINES, lambda _: None) as logs:
        pods = [pod(host, ended=True) for host in range(3)]
        logs.follow(pods)
        assert len(logs.save(RunFolder(str(tmp_path)), 1, pods)) == 3


def test_sixteen_logs_are_read_at_once(tmp_path: Path) -> None:
    full, reading, most = threading.Barrier(16), set[str](), 0

    def open_log(name: str) -> Iterator[bytes]:
        nonlocal most
        reading.add(name)
        most = max(most, len(reading))
        full.wait(30)
        yield from LINES
        reading.remove(name)

    with HostLogs(open_log, lambda _: None) as logs:
        logs.save(RunFolder(str(tmp_path)), 1, [pod(host, ended=True) for host in range(48)])
    assert most == 16


def test_hosts_that_had_ended_when_they_were_first_seen_are_in_the_task_log(tmp_path: Path) -> None:
    logged: list[str] = []
    with HostLogs(lambda _: LINES[:2], logged.append) as logs:
        paths = logs.save(RunFolder(str(tmp_path)), 1, [pod(0, ended=True), pod(1, ended=True)])
    assert logged == ["[base] line 10", "[base] line 11"], "those of the first host"
    assert len(paths) == 2


def test_an_unreadable_log_is_reported_and_ends_nothing(tmp_path: Path) -> None:
    def refuses(_: str) -> Iterable[bytes]:
        raise PermissionError("no")

    logged: list[str] = []
    with HostLogs(refuses, logged.append) as logs:
        logs.follow([pod(0, ended=True)])
        logs.save(RunFolder(str(tmp_path)), 1, [])
    assert logged == ["the log of host 0 cannot be read: no"]


def test_logs_have_a_maximum_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_LOG_BYTES", 20)
    with HostLogs(lambda _: LINES, lambda _: None) as logs:
        logs.follow([pod(0, ended=True)])
        paths = logs.save(RunFolder(str(tmp_path)), 1, [])
    text = files(tmp_path, paths)["attempt-1-host-0.log"]
    assert text == "line 10\n[... 64 bytes are left out ...]\nline 19\n", "its beginning and its end"


def test_a_log_api_that_hangs_does_not_hold_the_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMAINING_HOSTS_TIMEOUT_SECONDS", 0.2)
    over = threading.Event()

    def hangs(_: str) -> Iterator[bytes]:
        yield LINES[0]
        over.wait(60)

    with HostLogs(hangs, lambda _: None) as logs:
        paths = logs.save(RunFolder(str(tmp_path)), 1, [pod(host, ended=True) for host in range(20)])
        over.set()
    assert len(paths) <= module.READERS


def test_known_secrets_are_masked_in_whole_logs(tmp_path: Path) -> None:
    logged: list[str] = []
    with HostLogs(lambda _: LINES[:1], logged.append, lambda line: line.replace("line", "***")) as logs:
        paths = logs.save(RunFolder(str(tmp_path)), 1, [pod(0, ended=True)])
    assert logged[0] == "[base] *** 10"
    assert files(tmp_path, paths)["attempt-1-host-0.log"] == "*** 10\n"
    assert logs.save(RunFolder(str(tmp_path)), 1, [pod(0, ended=True)]) == [], "once"


@given(st.lists(st.binary(max_size=9).map(lambda data: data.replace(b"x", b"\n"))), st.integers(1, 5))
def test_lines_are_the_same_in_whatever_pieces_they_come_but_for_what_is_too_long(
    pieces: list[bytes], most: int
) -> None:
    whole = b"".join(pieces)
    expected = [line[:most] for line in whole.split(b"\n")]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "MAX_LINE_BYTES", most)
        assert b"".join(lines_in(pieces)) == b"\n".join(expected)


def test_a_line_without_an_end_takes_no_more_memory_than_is_kept() -> None:
    pieces = (b"2026-01-02T03:04:10Z " + b"x" * 1_000_000 for _ in range(100))
    (line,) = lines_in(pieces)
    assert len(line) == module.MAX_LINE_BYTES


def test_lines_that_come_faster_than_they_are_logged_are_counted_and_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_WAITING_LINES", 3)
    logged: list[str] = []
    with HostLogs(lambda _: LINES, logged.append) as logs:
        logs.follow([pod(0)])
        logs.follow([pod(0, ended=True)])
        paths = logs.save(RunFolder(str(tmp_path)), 1, [])
    assert logged == [
        "[base] line 10",
        "[base] line 11",
        "[base] line 12",
        "7 lines came faster than they can be logged: they are in the saved log only",
    ]
    assert files(tmp_path, paths) == {"attempt-1-host-0.log": "".join(f"line {number}\n" for number in range(10, 20))}


def test_the_log_of_a_pod_that_is_removed_while_it_runs_is_shown_up_to_now() -> None:
    """Its task is being ended, and has seconds until it is killed."""
    closed, logged = threading.Event(), list[str]()

    def endless(_: str) -> Iterator[bytes]:
        with suppress(GeneratorExit):
            for number in range(10**9):
                yield f"2026-01-02T03:04:05.{number:09}Z line\n".encode()
                closed.wait(0.01)
        closed.set()

    with HostLogs(endless, logged.append, hosts=0) as logs:
        logs.follow([pod(0)])
        assert logs.log_for(0.2)
        logs.show_rest(pod(0))
    assert closed.wait(30), "a log that has no end is read no further"
    assert set(logged) == {"[base] line"}
