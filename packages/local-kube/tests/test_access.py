"""Authentication, file permissions, and `exec`."""

from __future__ import annotations

import json
import ssl
import stat
from http.client import HTTPSConnection
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest
import websocket

from harness import NAMESPACE, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness import Pods


READS = ("/bin/sh", "-c", "cat /airflow/xcom/return.json")


def status_of(pods: Pods, path: str, headers: dict[str, str], method: str = "GET") -> int:
    port = int((pods.cluster.status().url or "").rpartition(":")[2])
    tls = ssl.create_default_context(cafile=str(pods.root / "authority.pem"))
    connection = HTTPSConnection("127.0.0.1", port, timeout=30, context=tls)
    try:
        connection.request(method, path, headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic x"}])
@pytest.mark.parametrize("path", ["/api/v1/namespaces/default/pods", "/version", "/readyz", "/nowhere"])
def test_requests_without_the_token_are_rejected(pods: Pods, path: str, headers: dict[str, str]) -> None:
    assert status_of(pods, path, headers) == 401
    assert status_of(pods, path, headers, "POST") == 401


def test_only_the_owner_can_read_the_files_of_a_cluster(pods: Pods) -> None:
    pods.run("sh", "-c", "echo secret", env=[{"name": "PASSWORD", "value": "x"}])
    assert stat.S_IMODE((pods.root / "pods").stat().st_mode) == 0o700
    for name in ("kubeconfig", "server.pem", "server.json"):
        assert stat.S_IMODE((pods.root / name).stat().st_mode) == 0o600
    for file in (pods.root / "pods").rglob("*/containers/*/*/*"):
        assert not stat.S_IMODE(file.stat().st_mode) & 0o077 or file.name in {"shim.log", "termination-log"}


def test_the_server_listens_on_loopback_only(pods: Pods) -> None:
    port = int((pods.cluster.status().url or "").rpartition(":")[2])
    listening = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    addresses = [
        fields[1].split(":")[0] for fields in listening if fields[3] == "0A" and fields[1].endswith(f":{port:04X}")
    ]
    assert addresses == ["0100007F"]


def test_containers_get_neither_the_token_nor_variables_of_airflow(pods: Pods, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_WAREHOUSE", "secret")
    name = pods.create("env")
    pods.ended(name)
    token = json.loads((pods.root / "kubeconfig").read_text())["users"][0]["user"]["token"]
    assert token not in pods.log(name)
    assert "AIRFLOW" not in pods.log(name)


def with_sidecar(pods: Pods, script: str) -> str:
    """Return a pod with Airflow's sidecar, whose workload has ended."""
    mounts = [{"name": "xcom", "mountPath": "/airflow/xcom"}]
    base = {"name": "base", "image": "x", "command": ["sh", "-c", script], "volumeMounts": mounts}
    side = {
        "name": "airflow-xcom-sidecar",
        "image": "alpine",
        "command": ["sh", "-c", 'trap "exit 0" INT; while true; do sleep 1; done;'],
        "volumeMounts": mounts,
    }
    name = pods.create(spec={"containers": [base, side], "volumes": [{"name": "xcom", "emptyDir": {}}]})
    wait_for(lambda: pods.terminated(pods.until(name, "Running")))
    return name


@pytest.fixture
def sidecar(pods: Pods) -> Iterator[str]:
    name = with_sidecar(pods, "echo '{\"loss\": 1.5}' > /airflow/xcom/return.json")
    yield name
    pods.delete(name)


def execute(pods: Pods, name: str, *command: str, container: str) -> str:
    """Return what a command prints, if the cluster accepts it."""
    status = pods.cluster.status()
    token = json.loads((pods.root / "kubeconfig").read_text())["users"][0]["user"]["token"]
    query = urlencode([*(("command", argument) for argument in command), ("container", container), ("stdout", "true")])
    url = f"{status.url}/api/v1/namespaces/{NAMESPACE}/pods/{name}/exec?{query}".replace("https", "wss")
    connection = websocket.WebSocket(sslopt={"ca_certs": str(pods.root / "authority.pem")})
    frames = []
    try:
        connection.connect(url, header=[f"Authorization: Bearer {token}"], subprotocols=["v4.channel.k8s.io"])
        while frame := connection.recv():
            frames.append(frame)
    finally:
        connection.shutdown()
    return b"".join(frame[1:] for frame in frames if frame[:1] == b"\x01").decode()


@pytest.mark.parametrize(
    ("command", "container"),
    [
        (["touch", "PROOF"], "base"),
        (["/bin/sh", "-c", "touch PROOF"], "airflow-xcom-sidecar"),
        (["/bin/sh"], "base"),
        (["/bin/sh", "-c", "cat /airflow/xcom/return.json"], "base"),
    ],
)
def test_exec_is_rejected(pods: Pods, sidecar: str, tmp_path: Path, command: list[str], container: str) -> None:
    proof = tmp_path / "proof"
    argv = [argument.replace("PROOF", str(proof)) for argument in command]
    with pytest.raises(websocket.WebSocketBadStatusException) as caught:
        execute(pods, sidecar, *argv, container=container)
    assert caught.value.status_code == 403
    assert not proof.exists()


def test_a_fault_reaches_every_process_of_a_container_once_and_no_other(pods: Pods) -> None:
    script = "sleep 600 & trap 'echo asked' TERM; echo $$$$ $!; while :; do sleep .1; done"
    name, other = (pods.create("sh", "-c", script) for _ in range(2))
    own, others = ([int(pid) for pid in wait_for(lambda one=one: pods.log(one)).split()] for one in (name, other))

    def states(pids: list[int]) -> set[str]:
        return {Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] for pid in pids}

    def order(number: int, *what: str) -> None:
        execute(pods, name, "/bin/sh", "-c", "the script", f"ml-metrics-fault-{number}", *what, container="base")

    order(0, "pause", "600", "0", "0")
    wait_for(lambda: states(own) == {"T"})
    assert "T" not in states(others)
    order(1, "pause", "600", "0", "0")
    with pytest.raises(websocket.WebSocketBadStatusException, match="403"):
        order(2, "pause", "a", "b", "c")
    order(3, "signal", "KILL")
    ended = pods.terminated(pods.ended(name))
    assert (ended.exit_code, ended.reason) == (137, "Error")
    assert pods.get(other).status.phase == "Running"
    with pytest.raises(websocket.WebSocketBadStatusException, match="400"):
        order(4, "signal", "KILL")
    name, own = other, others[:1]
    for _ in range(2):
        order(5, "signal", "TERM")
    order(6, "pause", "0.05", "0.05", "3")
    wait_for(lambda: "T" in states(own))
    wait_for(lambda: "asked" in pods.log(name))
    order(7, "memory", "1000000")
    ended = pods.terminated(pods.ended(name))
    assert (ended.exit_code, ended.reason) == (137, "OOMKilled")
    assert pods.log(name).count("asked") == 1
    pods.delete(name)


def test_the_xcom_result_is_returned_without_running_the_command(pods: Pods, sidecar: str, tmp_path: Path) -> None:
    proof = tmp_path / "proof"
    command = ("/bin/sh", "-c", f"touch {proof}; cat /airflow/xcom/return.json")
    assert execute(pods, sidecar, *command, container="airflow-xcom-sidecar") == '{"loss": 1.5}\n'
    assert not proof.exists()


@pytest.mark.parametrize("how", ["ln -s {file} {result}", "mkfifo {result}", "mkdir {result}"])
def test_a_result_that_is_no_file_of_the_workload_is_not_read(pods: Pods, how: str) -> None:
    script = how.format(file=pods.root / "kubeconfig", result="/airflow/xcom/return.json")
    name = with_sidecar(pods, script)
    assert execute(pods, name, *READS, container="airflow-xcom-sidecar") == "__airflow_xcom_result_empty__"
    pods.delete(name)
