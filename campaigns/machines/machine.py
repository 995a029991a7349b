"""A machine: one component of Airflow with a disk of its own, on which only what the deployment copies to it lies."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from airflow_home import BIN, PROJECT
from servers.own_disk import namespace

if TYPE_CHECKING:
    from collections.abc import Mapping

CHECKOUT = ("plugins", "packages", "dags", "include", "tests", "campaigns", "deploy")
"""The folders of this project that a machine does not have, and where the installed packages are."""
INSTALLED = ("airflow_provider_ml_metrics-*.dist-info", "ml_metrics_telemetry-*.dist-info", "local_kube-*.dist-info")
STRANGER = "Metadata-Version: 2.1\nName: something-else\nVersion: 1\n"
BOOT = """
set -e
mount --bind "$OWN_DISK" "$MACHINE"
for folder in $NOT_INSTALLED; do mount --bind "$DISKS/stranger" "$folder"; done
for folder in $NOT_THERE; do mount -t tmpfs -o size=64k none "$folder"; done
mount -t tmpfs -o size=64k none "$DISKS"
cd "$MACHINE"
exec "$@"
"""
"""The stranger stands for the metadata of a package that is not there, with which Airflow finds plugins."""
KEPT = ("PATH", "LANG", "LC_ALL", "USER", "LOGNAME", "VIRTUAL_ENV")


@dataclass
class Machine:
    """A component of Airflow. A machine that ended is replaced by one with a new disk."""

    name: str
    command: tuple[str, ...]
    base: Path
    """The folder of the deployment. Every machine finds its own disk at `base/machine`."""
    environment: Mapping[str, str]
    copies: tuple[str, ...] = ()
    """The folders of the deployment that are copied to it, such as `dags`."""
    starts: int = 0
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    mounts: int | None = None
    """The number of the mount namespace, by which its processes are known."""
    held: int | None = field(default=None, repr=False)
    """The open mount namespace: without it, the kernel gives the number to the next container as soon as the machine
    has ended, and what is killed then is that container."""

    @property
    def disk(self) -> Path:
        """The disk as the campaign sees it."""
        return self.base / "disks" / f"{self.name}-{self.starts}"

    def start(self) -> None:
        """Start the component on a new disk."""
        self.starts += 1
        for folder in ("airflow", "gcs/dags", "gcs/plugins", "tmp"):
            (self.disk / folder).mkdir(parents=True)
        for folder in self.copies:
            shutil.copytree(self.base / "deployed" / folder, self.disk / "gcs" / folder, dirs_exist_ok=True)
        config = self.base / "deployed" / "config"
        shutil.copytree(config, self.disk / "airflow" / "config")
        with (self.base / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*namespace(), "sh", "-c", BOOT, self.name, *self.command],
                env=self._environment(),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        before, self.held = self.held, self._own_mounts(self.process)
        self.mounts = None if self.held is None else os.fstat(self.held).st_ino
        if before is not None:
            os.close(before)

    def _own_mounts(self, process: subprocess.Popen[bytes]) -> int | None:
        """Wait until the machine has mounts of its own, and open them; None if it has ended before."""
        while not self.has_ended():
            with suppress(OSError):
                mounts = os.open(f"/proc/{process.pid}/ns/mnt", os.O_RDONLY)
                if os.fstat(mounts).st_ino != mounts_of(os.getpid()):
                    return mounts
                os.close(mounts)
            time.sleep(0.005)
        return None

    def processes(self) -> list[psutil.Process]:
        """Return all processes of the machine, also those whose parents have died: they share its mounts."""
        if self.mounts is None:
            return []
        return [one for one in psutil.process_iter() if mounts_of(one.pid) == self.mounts]

    def has_ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def kill(self) -> None:
        """kill -9 of all processes at once, as a machine that loses its power."""
        self._signal_all(signal.SIGKILL)
        self.wait(30)

    def stop(self, *, everyone: bool, seconds: float) -> None:
        """SIGTERM to the main process, or to every process; kill -9 of what is left after so many seconds."""
        if self.process is None:
            return
        if everyone:
            self._signal_all(signal.SIGTERM)
        else:
            with suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGTERM)
        left = self.processes()
        self.wait(seconds)
        for one in left:
            with suppress(psutil.NoSuchProcess):
                one.kill()
        self.wait(30)

    def wait(self, seconds: float) -> None:
        if self.process is not None:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(seconds)

    def forget(self) -> None:
        """Remove the disks of machines that ended."""
        for disk in self.base.glob(f"disks/{self.name}-*"):
            if disk != self.disk or self.has_ended():
                shutil.rmtree(disk, ignore_errors=True)

    def _signal_all(self, number: signal.Signals) -> None:
        for one in self.processes():
            with suppress(psutil.NoSuchProcess):
                one.send_signal(number)

    def _environment(self) -> dict[str, str]:
        site = next((BIN.parent / "lib").glob("python3*")) / "site-packages"
        installed = [str(path) for pattern in INSTALLED for path in site.glob(pattern)]
        machine = self.base / "machine"
        return {
            **{name: os.environ[name] for name in KEPT if name in os.environ},
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "OWN_DISK": str(self.disk),
            "DISKS": str(self.base / "disks"),
            "MACHINE": str(machine),
            "NOT_THERE": " ".join(str(PROJECT / folder) for folder in CHECKOUT),
            "NOT_INSTALLED": " ".join(installed),
            "HOME": str(machine),
            "TMPDIR": str(machine / "tmp"),
            "AIRFLOW_HOME": str(machine / "airflow"),
            "AIRFLOW__CORE__DAGS_FOLDER": str(machine / "gcs" / "dags"),
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(machine / "gcs" / "plugins"),
            "PYTHONWARNINGS": "",
            **self.environment,
        }


def prepare(base: Path) -> None:
    """Make the folders of a deployment in which machines start."""
    stranger = base / "disks" / "stranger"
    stranger.mkdir(parents=True)
    (stranger / "METADATA").write_text(STRANGER)
    (base / "machine").mkdir()


def mounts_of(pid: int) -> int | None:
    """Return the number of the mount namespace of a process; None if there is no such process."""
    try:
        return Path(f"/proc/{pid}/ns/mnt").stat().st_ino
    except OSError:
        return None


def wait_for_end(machines: list[Machine], seconds: float) -> None:
    """Stop machines, all at the same time."""
    for one in machines:
        if one.process is not None and not one.has_ended():
            with suppress(ProcessLookupError):
                one.process.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + seconds
    for one in machines:
        one.wait(max(0.1, deadline - time.monotonic()))
        one.kill()
