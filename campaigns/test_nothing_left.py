"""Whatever tests start ends with them, however they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from airflow_home import PROJECT
from standalone_airflow import START_SECONDS, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.campaign]

COMMANDS = {
    "redis": {"redis-server"},
    "postgres": {"/postgres"},
    "gcs": {"fake-gcs-server"},
    "pod": {"local_kube.server", "local_kube.processes.shim", "time.sleep"},
    "airflow": {"deploy/standalone.py", "airflow scheduler", "airflow triggerer", "airflow dag-processor"},
}
"""What tests start, and words of the commands of its processes."""
SERVERS = ("redis", "postgres", "gcs", "pod")
SECONDS = 300
"""How long a busy machine may take to end what was started."""


class Started:
    """A pytest whose test starts servers and stops none. All its processes can be found by a mark."""

    def __init__(self, folder: Path, kinds: tuple[str, ...], *, waits: bool) -> None:
        # the path of a socket of PostgreSQL is short
        self.folder = tempfile.TemporaryDirectory(prefix="left-behind-", ignore_cleanup_errors=True)
        Path(self.folder.name).chmod(0o755)
        self.mark, self.report, self.log = Path(self.folder.name).name, folder / "report", folder / "log"
        environment = {name: value for name, value in os.environ.items() if name != "PYTEST_XDIST_WORKER"}
        environment |= {
            "LEFT_BEHIND_MARK": self.mark,
            "LEFT_BEHIND_REPORT": str(self.report),
            "LEFT_BEHIND_KINDS": " ".join(kinds),
            "LEFT_BEHIND_WAITS": "yes" if waits else "",
            "TMPDIR": self.folder.name,
        }
        # started under nohup, they would ignore SIGHUP
        command = ["env", "--default-signal=HUP", sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, "tests/fixtures/left_behind/everything.py"],
                cwd=PROJECT, env=environment, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        wait_until(lambda: self.report.exists() or self.process.poll() is not None, "all has started", START_SECONDS)
        assert self.report.exists(), self.log.read_text()

    def running(self) -> dict[int, str]:
        """Return the command of each process with the mark: in its environment or, if it has another, elsewhere."""
        found = {}
        for pid in psutil.pids():
            with suppress(OSError):
                command, environment = (Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ"))
                folder = os.fsencode(Path(f"/proc/{pid}/cwd").readlink())  # redis writes its title over the other two
                if self.mark.encode() in command + environment + folder:
                    found[pid] = command.replace(b"\0", b" ").decode(errors="replace")
        return found

    def stop(self) -> None:
        for pid in self.running():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(30)
        self.folder.cleanup()


@contextmanager
def started(folder: Path, *kinds: str, waits: bool = True) -> Iterator[Started]:
    tests = Started(folder, kinds, waits=waits)
    try:
        yield tests
    finally:
        tests.stop()


@pytest.mark.parametrize(
    ("number", "kinds"), [(signal.SIGTERM, SERVERS), (signal.SIGKILL, (*SERVERS, "airflow")), (signal.SIGHUP, ())]
)
def test_nothing_is_left_of_tests_that_a_signal_ends(
    tmp_path: Path, number: signal.Signals, kinds: tuple[str, ...]
) -> None:
    with started(tmp_path, *kinds) as tests:
        running = tests.running().values()
        expected = {word for kind in kinds for word in COMMANDS[kind]}
        assert {word for word in expected if not any(word in command for command in running)} == set()
        tests.process.send_signal(number)
        assert tests.process.wait(SECONDS) == -number
        wait_until(lambda: not tests.running(), "nothing is left", SECONDS)


def test_nothing_is_left_when_the_whole_group_is_killed(tmp_path: Path) -> None:
    """A local cluster is in no group of ours."""
    with started(tmp_path, "pod") as tests:
        os.killpg(tests.process.pid, signal.SIGKILL)
        tests.process.wait(SECONDS)
        wait_until(lambda: not tests.running(), "nothing is left", SECONDS)


def test_nothing_is_left_when_only_the_process_of_the_tests_is_killed(tmp_path: Path) -> None:
    with started(tmp_path, "redis") as tests:
        os.kill(int(tests.report.read_text()), signal.SIGKILL)
        assert tests.process.wait(SECONDS) == 128 + signal.SIGKILL
        assert tests.running() == {}


def test_nothing_is_left_when_what_watches_the_tests_is_killed(tmp_path: Path) -> None:
    with started(tmp_path, "redis") as tests:
        (watcher,) = psutil.Process(tests.process.pid).children()
        watcher.kill()
        assert tests.process.wait(SECONDS) == 128 + signal.SIGKILL
        assert tests.running() == {}


def test_nothing_is_left_of_tests_that_end_by_themselves(tmp_path: Path) -> None:
    with started(tmp_path, "redis", waits=False) as tests:
        assert tests.process.wait(SECONDS) == pytest.ExitCode.TESTS_FAILED, tests.log.read_text()
        assert tests.running() == {}
