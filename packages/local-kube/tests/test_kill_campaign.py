"""The server is killed at random moments while pods and Jobs are created, run, end and are deleted."""

from __future__ import annotations

import os
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from kubernetes.client import ApiException, BatchV1Api
from urllib3.exceptions import HTTPError

from harness import NAMESPACE, connect, wait_for
from local_kube import LocalCluster
from local_kube.pods.confinement import Confinement
from local_kube.processes.process_tree import MARK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from harness import Pods

KILLS = int(os.environ.get("LOCAL_KUBE_KILLS", "10"))
SEED = int(os.environ.get("LOCAL_KUBE_SEED", "0")) or random.SystemRandom().randrange(1, 10**9)
PODS = 2 * KILLS
JOBS = KILLS // 4
WORKERS = 3

pytestmark = pytest.mark.usefixtures("killed_during_handshake")


@pytest.fixture
def busy(tmp_path: Path, image_folder: Path) -> Iterator[Pods]:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "ran").touch()
    (tmp_path / "shared" / "ran").chmod(0o666)  # each pod may be another user
    confinement = Confinement(shared=(tmp_path / "shared",))
    pods = connect(LocalCluster(str(tmp_path / "cluster"), str(image_folder), confinement=confinement))
    yield pods
    pods.cluster.stop()


def call_until_answered(call: Callable[[], object], unless: int) -> None:
    """Repeat a call until the server responds; the status `unless` means that an earlier try took effect."""
    while True:
        try:
            call()
        except ApiException as refused:
            if refused.status != unless:
                raise
        except (HTTPError, OSError):
            time.sleep(0.02)
            continue
        return


def killer(pods: Pods, chance: random.Random) -> None:
    for _ in range(KILLS):
        time.sleep(chance.uniform(0, 0.6))
        pid = pods.cluster.status().pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not pods.cluster.status().running)
        pods.cluster.ensure_running()


def pod(name: str, script: str) -> dict[str, object]:
    base = {"name": "base", "image": "python", "command": ["sh", "-c", script]}
    return {"metadata": {"name": name}, "spec": {"restartPolicy": "Never", "containers": [base]}}


def job(name: str, script: str) -> dict[str, object]:
    spec = {"completions": WORKERS, "parallelism": WORKERS, "completionMode": "Indexed", "backoffLimit": 0}
    return {"metadata": {"name": name}, "spec": {**spec, "template": {"spec": pod("x", script)["spec"]}}}


def still_running(root: Path) -> list[str]:
    """Return the commands of all processes that containers of this cluster have left."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and MARK.encode() in (entry / "environ").read_bytes():
                inside = str(root) in str((entry / "cwd").readlink())
                found += [(entry / "cmdline").read_text()] if inside else []
        except OSError:
            continue
    return found


def test_kills_at_random_moments_lose_no_pod_run_none_twice_and_leave_no_process(busy: Pods, tmp_path: Path) -> None:
    print(f"LOCAL_KUBE_SEED={SEED}")
    chance, ran = random.Random(SEED), tmp_path / "shared" / "ran"
    batch = BatchV1Api(busy.core.api_client)

    def single_pod(name: str) -> None:
        time.sleep(chance.uniform(0, 0.4))
        script = f"echo {name} >>{ran}; sleep {chance.uniform(0, 1.5):.2f}"
        call_until_answered(lambda: busy.core.create_namespaced_pod(NAMESPACE, pod(name, script)), 409)

    def indexed_job(name: str) -> None:
        script = f"echo {name}-$JOB_COMPLETION_INDEX >>{ran}; sleep {chance.uniform(0, 1):.2f}"
        call_until_answered(lambda: batch.create_namespaced_job(NAMESPACE, job(name, script)), 409)

    def deleted_while_running(name: str) -> None:
        """Delete a pod while it runs: it must be gone, with its processes."""
        call_until_answered(lambda: busy.core.create_namespaced_pod(NAMESPACE, pod(name, "sleep 600 & sleep 600")), 409)
        time.sleep(chance.uniform(0, 0.5))
        call_until_answered(lambda: busy.core.delete_namespaced_pod(name, NAMESPACE, grace_period_seconds=0), 404)

    names = [f"pod-{number}" for number in range(PODS)]
    sets = [f"set-{number}" for number in range(JOBS)]
    with ThreadPoolExecutor(4) as threads:
        kills = threads.submit(killer, busy, random.Random(SEED))
        orders = [
            *(threads.submit(single_pod, name) for name in names),
            *(threads.submit(indexed_job, name) for name in sets),
            *(threads.submit(deleted_while_running, f"gone-{number}") for number in range(JOBS)),
        ]
        kills.result()
        for order in orders:
            order.result()

    def phases() -> dict[str, str]:
        return {one.metadata.name: one.status.phase for one in busy.core.list_namespaced_pod(NAMESPACE).items}

    wait_for(lambda: not {"Pending", "Running"} & set(phases().values()))
    found = phases()
    assert {name: found.get(name) for name in names} == dict.fromkeys(names, "Succeeded"), "a pod was lost or failed"
    assert not [name for name in found if name.startswith("gone-")]
    for name in sets:
        wait_for(lambda name=name: batch.read_namespaced_job(name, NAMESPACE).status.completion_time)  # type: ignore[misc]
    workers = [f"{name}-{index}" for name in sets for index in range(WORKERS)]
    assert sorted(ran.read_text().split()) == sorted([*names, *workers]), "something ran twice, or not at all"
    assert len(found) == len(names) + len(workers)
    assert still_running(busy.root) == []
