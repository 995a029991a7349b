from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.measure import ContainerLog, Role, failing_log, lines_of, listed_logs, read_logs, write_logs
from ml_metrics.measure.logs import FOLDER
from ml_metrics.store.documents import DOCUMENTS
from ml_metrics.store.run_folder import RunFolder

BASE = ContainerLog(1, "base", Role.WORKLOAD, saved=True)
PROXY = ContainerLog(1, "proxy", Role.SIDECAR, saved=True)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    (tmp_path / "_ml_metrics" / "logs").mkdir(parents=True)
    return RunFolder(str(tmp_path))


@pytest.mark.parametrize(
    ("log", "name", "title"),
    [
        (BASE, "attempt-1-base.log", "container base"),
        (PROXY, "attempt-1-proxy.log", "sidecar proxy"),
        (
            ContainerLog(2, "base", Role.WORKLOAD, previous=True),
            "attempt-2-base.previous.log",
            "container base, before its restart",
        ),
        (ContainerLog(1, "base", Role.WORKLOAD, 3), "attempt-1-host-3.log", "container base of host 3"),
        (ContainerLog(1, "fetch", Role.INIT, 3), "attempt-1-host-3-fetch.log", "init container fetch of host 3"),
    ],
)
def test_files_lie_beside_those_of_hosts(log: ContainerLog, name: str, title: str) -> None:
    assert (log.file, log.title) == (name, title)


def test_the_logs_of_all_attempts_are_listed(folder: RunFolder) -> None:
    write_logs(folder, [BASE])
    second = ContainerLog(2, "base", Role.WORKLOAD, exit_code=1, finished_at="2026-01-01T00:00:00Z", saved=True)
    write_logs(folder, [second])
    write_logs(folder, [second])
    assert read_logs(folder) == (BASE, second)
    write_logs(folder, [])
    assert read_logs(folder) == (BASE, second)


def test_the_container_that_failed_first_explains_a_failure() -> None:
    def ended(container: str, code: int, second: int, **more: Any) -> ContainerLog:
        role = Role.WORKLOAD if container == "base" else Role.SIDECAR
        return ContainerLog(
            1, container, role, exit_code=code, finished_at=f"2026-01-01T00:00:0{second}Z", saved=True, **more
        )

    base, proxy = ended("base", 1, 2), ended("proxy", 137, 5)
    assert failing_log([proxy, base], 1) == base
    hosts = [ended("base", 137, 5, host=0), ended("base", 1, 3, host=1)]
    assert failing_log(hosts, 1) == hosts[1]
    assert failing_log([ended("base", 0, 1), proxy], 1) == proxy
    assert failing_log([PROXY, BASE], 1) == BASE, "the cluster ended it"
    assert failing_log([base], 2) is None
    assert failing_log([ContainerLog(1, "base", Role.WORKLOAD, note="gone")], 1) is None
    assert failing_log([ended("base", 1, 1, previous=True), ended("base", 2, 3)], 1) == ended("base", 2, 3)


def test_older_folders_have_logs_without_a_list(folder: RunFolder) -> None:
    for name in ("attempt-1-host-0.log", "attempt-1-host-1.log", "notes.txt", "attempt-1-.log"):
        Path(folder.path, "_ml_metrics", "logs", name).write_text("a line\n")
    found = listed_logs(folder)
    assert [(log.host, log.role, log.file) for log in found] == [
        (0, Role.WORKLOAD, "attempt-1-host-0.log"),
        (1, Role.WORKLOAD, "attempt-1-host-1.log"),
    ]
    assert lines_of(folder, found[0]) == ("a line",)


def test_the_end_of_a_large_log_is_read(folder: RunFolder) -> None:
    Path(folder.path, DOCUMENTS, FOLDER, BASE.file).write_bytes(
        b"".join(b"line %d\n" % number for number in range(500_000))
    )
    assert lines_of(folder, BASE, 2) == ("line 499998", "line 499999")
    assert len(lines_of(folder, BASE)) == 100


def test_a_file_that_is_not_there_has_no_lines(folder: RunFolder) -> None:
    assert lines_of(folder, BASE) == ()


def test_links_and_pipes_are_not_opened(folder: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("not a log of this run")
    Path(folder.path, DOCUMENTS, FOLDER, BASE.file).symlink_to(tmp_path / "other")
    os.mkfifo(Path(folder.path, DOCUMENTS, FOLDER, PROXY.file))
    assert lines_of(folder, BASE) == ()
    assert lines_of(folder, PROXY) == ()


@pytest.mark.parametrize(
    "entry",
    [
        {"container": "../../../../etc/passwd"},
        {"container": "a/b"},
        {"container": ""},
        {"container": "x" * 5000},
        {"attempt": "../1"},
        {"attempt": -1},
        {"attempt": 1e400},
        {"role": "other"},
        {"host": "../../x"},
    ],
)
def test_a_list_that_leads_elsewhere_is_ignored(folder: RunFolder, entry: dict[str, Any]) -> None:
    good = {"attempt": 1, "container": "base", "role": "workload", "saved": True}
    folder.write("logs", {"logs": [{**good, "role": "sidecar", **entry}, good]})
    assert read_logs(folder) == (BASE,)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.sampled_from(["logs", "attempt", "container", "role", "host"]) | st.text(), inner)
    ),
)


@given(document=JSON | st.binary())
def test_a_damaged_list_is_no_error(tmp_path_factory: pytest.TempPathFactory, document: Any) -> None:
    folder = RunFolder(str(tmp_path_factory.mktemp("run")))
    Path(folder.path, "_ml_metrics").mkdir()
    content = document if isinstance(document, bytes) else json.dumps(document).encode()
    Path(folder.path, "_ml_metrics", "logs.json").write_bytes(content)
    assert all(log.file.startswith("attempt-") for log in read_logs(folder))
