from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from urllib3.exceptions import ProtocolError

from ml_metrics.airflow.clusters.outcome import INDEX
from ml_metrics.airflow.operators import run_hosts
from ml_metrics.airflow.operators.run_hosts import HostLogs, lines_of
from ml_metrics.store.run_folder import RunFolder

STARTED, ENDED = "2026-01-02T03:04:05Z", "2026-01-02T03:05:05Z"
LINES = [f"2026-01-02T03:04:{second:02}Z line {second}\n".encode() for second in range(10, 20)]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_hosts, "RETRY_SECONDS", 0.01)


def pod(host: int, *, ended: bool = False) -> dict[str, Any]:
    state = {"terminated": {"exitCode": 0, "startedAt": STARTED, "finishedAt": ENDED}}
    running = {"running": {"startedAt": STARTED}}
    status = {"containerStatuses": [{"name": "base", "state": state if ended else running}]}
    return {"metadata": {"name": f"p{host}", "annotations": {INDEX: str(host)}}, "status": status}


def saved(folder: Path, names: list[str]) -> dict[str, str]:
    return {name: (folder / "_ml_metrics" / "logs" / name).read_text() for name in names}


def test_the_first_host_is_followed_and_all_logs_are_saved(tmp_path: Path) -> None:
    logged: list[str] = []
    with HostLogs(lambda _: LINES[:2], logged.append) as logs:
        logs.follow([pod(0), pod(1)])
        logs.follow([pod(0, ended=True), pod(1, ended=True)])
        paths = logs.save(RunFolder(str(tmp_path)), 2, [])
    assert logged == ["line 10", "line 11"]
    text = "line 10\nline 11\n"
    assert saved(tmp_path, paths) == {"attempt-2-host-0.log": text, "attempt-2-host-1.log": text}


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
    assert logged == [f"line {second}" for second in range(10, 20)], "each line once"
    assert saved(tmp_path, paths)["attempt-1-host-0.log"].count("\n") == 10


def test_logs_of_hosts_that_are_not_followed_are_saved_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_hosts, "MAX_FOLLOWED_HOSTS", 1)
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
    assert logged == ["line 10", "line 11"], "those of the first host"
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
    monkeypatch.setattr(run_hosts, "MAX_LOG_BYTES", 20)
    with HostLogs(lambda _: LINES, lambda _: None) as logs:
        logs.follow([pod(0, ended=True)])
        paths = logs.save(RunFolder(str(tmp_path)), 1, [])
    text = saved(tmp_path, paths)["attempt-1-host-0.log"]
    assert text == "line 10\n[... 64 bytes are left out ...]\nline 19\n", "its beginning and its end"


def test_a_log_api_that_hangs_does_not_hold_the_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_hosts, "REMAINING_HOSTS_TIMEOUT_SECONDS", 0.2)
    over = threading.Event()

    def hangs(_: str) -> Iterator[bytes]:
        yield LINES[0]
        over.wait(60)

    with HostLogs(hangs, lambda _: None) as logs:
        paths = logs.save(RunFolder(str(tmp_path)), 1, [pod(host, ended=True) for host in range(20)])
        over.set()
    assert len(paths) <= run_hosts.READERS


def test_known_secrets_are_masked_in_whole_logs(tmp_path: Path) -> None:
    logged: list[str] = []
    with HostLogs(lambda _: LINES[:1], logged.append, lambda line: line.replace("line", "***")) as logs:
        paths = logs.save(RunFolder(str(tmp_path)), 1, [pod(0, ended=True)])
    assert logged[0] == "*** 10"
    assert saved(tmp_path, paths)["attempt-1-host-0.log"] == "*** 10\n"
    assert logs.save(RunFolder(str(tmp_path)), 1, [pod(0, ended=True)]) == [], "once"


@given(st.lists(st.binary(max_size=9).map(lambda data: data.replace(b"x", b"\n"))), st.integers(1, 5))
def test_lines_are_the_same_in_whatever_pieces_they_come_but_for_what_is_too_long(
    pieces: list[bytes], most: int
) -> None:
    whole = b"".join(pieces)
    expected = [line[:most] for line in whole.split(b"\n")]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(run_hosts, "MAX_LINE_BYTES", most)
        assert b"".join(lines_of(pieces)) == b"\n".join(expected)


def test_a_line_without_an_end_takes_no_more_memory_than_is_kept() -> None:
    pieces = (b"2026-01-02T03:04:10Z " + b"x" * 1_000_000 for _ in range(100))
    (line,) = lines_of(pieces)
    assert len(line) == run_hosts.MAX_LINE_BYTES


def test_lines_that_come_faster_than_they_are_logged_are_counted_and_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_hosts, "MAX_WAITING_LINES", 3)
    logged: list[str] = []
    with HostLogs(lambda _: LINES, logged.append) as logs:
        logs.follow([pod(0)])
        logs.follow([pod(0, ended=True)])
        paths = logs.save(RunFolder(str(tmp_path)), 1, [])
    assert logged == [
        "line 10",
        "line 11",
        "line 12",
        "7 lines came faster than they can be logged: they are in the saved log only",
    ]
    assert saved(tmp_path, paths) == {"attempt-1-host-0.log": "".join(f"line {number}\n" for number in range(10, 20))}
