from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from ml_metrics.airflow.operators import container_logs
from ml_metrics.airflow.operators.container_logs import known_secrets, list_logs, save_logs
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
    monkeypatch.setattr(container_logs, "FETCH_SECONDS", 0.2)
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
    monkeypatch.setattr(container_logs, "MAX_BYTES", 1000)
    monkeypatch.setattr(container_logs, "MAX_READ_BYTES", 1 << 20)
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
    monkeypatch.setattr(container_logs, "MAX_BYTES", 2000)
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
    assert sum(log.saved for log in logs) == container_logs.MAX_LOGS
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
