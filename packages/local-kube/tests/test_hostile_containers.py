"""A hostile program in a container reaches nothing of the server's, of other pods or of other processes."""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness import Pods, connect, needs_landlock, needs_root, wait_for
from hostile_container import AS_ANOTHER_USER, ATTACKS
from local_kube import LocalCluster
from local_kube.pods.confinement import Confinement
from local_kube.processes import landlock

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = Path(__file__).with_name("hostile_container.py")
SINCE = {"truncate it": 3, "end a process": 6, "connect to an abstract socket": 6}
"""What only later versions of Landlock refuse: those of Linux 6.2 and 6.12."""
CANARY = ctypes.create_string_buffer(b"canary")


@dataclass
class Scene:
    """A cluster below a home with secrets, a pod that has ended, and this process as a victim."""

    pods: Pods
    home: Path
    image: Path
    other: str = ""
    """The folder of the other pod."""

    def run(self, *command: str, name: str | None = None, **container: Any) -> str:
        """Run a command in a pod and return what it printed."""
        victim: dict[str, object] = {"HOME_OF_ANOTHER": self.home, "VICTIM": os.getpid(), "OTHER_POD": self.other}
        victim["ADDRESS"] = ctypes.addressof(CANARY)
        env = [{"name": key, "value": str(value)} for key, value in victim.items()]
        name = self.pods.create(*command, name=name, env=env, **container)
        self.pods.ended(name)
        return self.pods.log(name)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    base = tmp_path_factory.mktemp("hostile")
    home, image = base / "home", base / "image"
    (image / "include").mkdir(parents=True)
    (image / "include" / "hello.py").touch()
    shutil.copy(PROGRAM, image)
    home.mkdir()
    (home / "airflow.cfg").write_text("canary\n")
    shared_memory = Path("/dev/shm") / f"canary{os.getpid()}"
    cluster = LocalCluster(str(home / "cluster"), str(image), confinement=Confinement(hidden=(home,)))
    with socket.socket(socket.AF_UNIX) as abstract, socket.socket(socket.AF_UNIX) as named:
        abstract.bind(f"\0{home}")
        named.bind(str(home / "socket"))
        for listener in (abstract, named):
            listener.listen()
        shared_memory.write_text("canary")
        shared_memory.chmod(0o600)
        try:
            made = Scene(connect(cluster), home, image)
            made.run("sh", "-c", "echo canary | tee result", name="other")
            made.other = str(made.pods.root / "pods" / made.pods.get("other").metadata.uid)
            yield made
        finally:
            shared_memory.unlink()
            cluster.stop()


def attack(scene: Scene, name: str) -> str:
    return scene.run("python3", PROGRAM.name, name)


@needs_landlock
@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_refused(scene: Scene, name: str) -> None:
    if landlock.version() < SINCE.get(name, 1):
        pytest.skip("Landlock of this kernel does not know this right (Linux 6.2) or this scope (Linux 6.12)")
    assert attack(scene, name).startswith("refused: ")
    assert (scene.home / "airflow.cfg").read_text() == "canary\n"


@needs_landlock
@needs_root
@pytest.mark.parametrize("name", AS_ANOTHER_USER)
def test_an_attack_on_files_and_processes_of_the_server_is_refused_to_another_user(scene: Scene, name: str) -> None:
    assert attack(scene, name).startswith("refused: ")


@pytest.mark.parametrize("name", ["read a file of Airflow", "read the environment of a process", "list /tmp"])
def test_the_attacks_succeed_where_nothing_is_confined(scene: Scene, tmp_path: Path, name: str) -> None:
    cluster = LocalCluster(str(tmp_path / "cluster"), str(scene.image), confinement=Confinement("off"))
    try:
        assert attack(Scene(connect(cluster), scene.home, scene.image), name).startswith("succeeded: ")
    finally:
        cluster.stop()


DAEMONS = """
import os, sys, time
for _ in range(20):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for handle in range(3):
                os.close(handle)
            os.execve(sys.executable, ["python3", "-c", "import time; time.sleep(600)", sys.argv[1]], {})
        os._exit(0)
"""


def test_no_process_outlives_its_container(scene: Scene) -> None:
    """Neither with a session of its own, nor without the mark of its container, nor without its output."""
    mark = os.urandom(8).hex()
    scene.run("python3", "-c", DAEMONS, mark)

    def left() -> list[str]:
        listed = subprocess.run(["ps", "-ax", "-o", "args="], capture_output=True, text=True, check=True)
        return [line for line in listed.stdout.splitlines() if mark in line and "time.sleep" in line]

    wait_for(lambda: not left())


@needs_landlock
@needs_root
def test_the_processes_of_a_run_are_limited(scene: Scene) -> None:
    assert int(scene.run("bash", "-c", "ulimit -Hu")) <= 10_000


@needs_landlock
def test_folders_in_volumes_are_made_where_the_container_may_write(scene: Scene, tmp_path: Path) -> None:
    mount = {"name": "data", "mountPath": "/data"}
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "volumes": [{"name": "data", "emptyDir": {}}],
        "initContainers": [
            {"name": "evil", "image": "x", "command": ["ln", "-s", str(tmp_path), "/data/out"], "volumeMounts": [mount]}
        ],
        "containers": [
            {
                "name": "base",
                "image": "x",
                "command": ["sh", "-c", "echo x > /data/file; echo x > file; ls /data $PWD"],
                "workingDir": "some/folder",
                "volumeMounts": [{**mount, "subPath": "a/b"}],
            }
        ],
    }
    inside = scene.pods.create(name="inside", spec=spec)
    scene.pods.ended(inside)
    assert scene.pods.log(inside, container="base").count("file\n") == 2
    spec["containers"][0]["volumeMounts"] = [{**mount, "subPath": "out/new"}]
    scene.pods.ended(scene.pods.create(name="outside", spec=spec))
    assert not list(tmp_path.iterdir())


@needs_landlock
def test_a_supervisor_shows_nothing_to_its_container(scene: Scene) -> None:
    printed = scene.run("sh", "-c", "cat /proc/$PPID/environ; ls -l /proc/$PPID/fd; echo end")
    assert "PYTHONPATH" not in printed
    assert "kubeconfig" not in printed
