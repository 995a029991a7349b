"""Servers and shims that are killed or stopped: pods survive or fail, and no process is left."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness import connect, wait_for
from local_kube import ClusterError, LocalCluster
from local_kube.json_files import read_json

if TYPE_CHECKING:
    from typing import Any

    from harness import Pods

pytestmark = pytest.mark.usefixtures("killed_during_handshake")
SLEEPER = ("sh", "-c", "echo started; sleep 600 & setsid sleep 600 & while [ ! -e go ]; do sleep 0.05; done; echo went")


def kill_server(pods: Pods) -> None:
    pid = pods.cluster.status().pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not pods.cluster.status().running)


def attempt(pods: Pods, pod: Any) -> Path:
    return pods.root / "pods" / pod.metadata.uid / "containers" / "base" / "0"


def marked(folder: Path) -> list[int]:
    """Return the processes of a container, found by the mark that all of them carry."""
    order = read_json(folder / "container.json")
    assert order is not None
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and order["id"].encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def shim_of(folder: Path) -> int:
    state = read_json(folder / "state.json")
    assert state is not None
    return int(Path(f"/proc/{state['pid']}/stat").read_text().rpartition(")")[2].split()[1])


def test_pods_survive_a_killed_server(own: Pods) -> None:
    name = own.create(*SLEEPER)
    before = own.until(name, "Running")
    wait_for(lambda: own.log(name))
    kill_server(own)
    assert marked(attempt(own, before)), "the container keeps running without the server"
    own.cluster.ensure_running()
    after = own.get(name)  # with the same client, because address and token do not change
    assert after.metadata.uid == before.metadata.uid
    assert after.status.phase == "Running"
    assert after.status.container_statuses[0].restart_count == 0
    (own.root / "pods" / after.metadata.uid / "files" / "base" / "go").touch()
    assert own.ended(name).status.phase == "Succeeded"
    assert own.log(name) == "started\nwent\n"
    assert marked(attempt(own, before)) == []


def test_pods_that_end_without_a_server_are_reported_by_the_next(own: Pods) -> None:
    name = own.create("sh", "-c", "while [ ! -e go ]; do sleep 0.05; done; exit 7")
    pod = own.until(name, "Running")
    kill_server(own)
    (own.root / "pods" / pod.metadata.uid / "files" / "base" / "go").touch()
    wait_for(lambda: not marked(attempt(own, pod)))
    own.cluster.ensure_running()
    assert own.terminated(own.ended(name)).exit_code == 7


def test_a_killed_shim_fails_the_pod_and_leaves_no_process(own: Pods) -> None:
    name = own.create(*SLEEPER)
    pod = own.until(name, "Running")
    wait_for(lambda: own.log(name))
    os.kill(shim_of(attempt(own, pod)), signal.SIGKILL)
    ended = own.terminated(own.ended(name))
    assert (ended.exit_code, ended.reason) == (137, "ContainerStatusUnknown")
    assert marked(attempt(own, pod)) == []


def test_server_and_shim_killed_together_leave_no_process_after_the_next_start(own: Pods) -> None:
    name = own.create(*SLEEPER)
    pod = own.until(name, "Running")
    wait_for(lambda: own.log(name))
    kill_server(own)
    os.kill(shim_of(attempt(own, pod)), signal.SIGKILL)
    own.cluster.ensure_running()
    assert own.terminated(own.ended(name)).reason == "ContainerStatusUnknown"
    assert marked(attempt(own, pod)) == []


def test_repeated_kills_of_the_server_run_each_pod_once(own: Pods, tmp_path: Path) -> None:
    ran = tmp_path / "shared" / "ran"
    ran.parent.mkdir()
    ran.touch()
    ran.chmod(0o666)  # each pod may be another user
    mounts = [{"name": "shared", "mountPath": "/shared"}]
    spec = {"volumes": [{"name": "shared", "hostPath": {"path": str(ran.parent)}}]}
    names = []
    for number in range(6):
        names.append(own.create("sh", "-c", f"echo {number} >> /shared/ran; sleep 0.3", volumeMounts=mounts, spec=spec))
        kill_server(own)
        own.cluster.ensure_running()
    assert [own.ended(name).status.phase for name in names] == ["Succeeded"] * 6
    assert sorted(ran.read_text().split()) == [str(number) for number in range(6)]


def test_stop_ends_every_pod(own: Pods) -> None:
    name = own.create(*SLEEPER)
    pod = own.until(name, "Running")
    assert own.cluster.stop()
    assert marked(attempt(own, pod)) == []
    assert not own.cluster.status().running
    own.cluster.ensure_running()
    assert (own.get(name).status.phase, own.get(name).status.reason) == ("Failed", "Terminated")


def test_removing_the_root_ends_what_runs_there(tmp_path: Path, image_folder: Path) -> None:
    pods = connect(LocalCluster(str(tmp_path / "cluster"), str(image_folder)))
    pod = pods.until(pods.create(*SLEEPER), "Running")
    processes = marked(attempt(pods, pod))
    kill_server(pods)
    (tmp_path / "cluster").rename(tmp_path / "moved")
    wait_for(lambda: not any(Path(f"/proc/{process}").exists() for process in processes))


def test_many_callers_start_one_server(tmp_path: Path) -> None:
    clusters = [LocalCluster(str(tmp_path / "cluster")) for _ in range(8)]
    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(LocalCluster.ensure_running, clusters))) == 1
    assert (tmp_path / "cluster" / "server.log").read_text().count("serving") == 1
    assert clusters[0].stop()
    assert not clusters[1].stop()


def test_an_idle_server_stops(tmp_path: Path) -> None:
    cluster = LocalCluster(str(tmp_path / "cluster"), idle_seconds=0.5)
    cluster.ensure_running()
    log = tmp_path / "cluster" / "server.log"
    wait_for(lambda: "idle for" in log.read_text())


def test_a_root_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ClusterError, match="cannot keep its state here"):
        LocalCluster(str(tmp_path / "file" / "cluster")).ensure_running()


def test_a_server_that_does_not_start_is_an_error_with_its_log(tmp_path: Path) -> None:
    root = tmp_path / "cluster"
    root.mkdir()
    (root / "pods").touch()
    with pytest.raises(ClusterError, match=r"(?s)server\.log.*FileExistsError"):
        LocalCluster(str(root)).ensure_running()
