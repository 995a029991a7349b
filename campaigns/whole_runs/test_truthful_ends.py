"""Runs that are not blamed on what they met: sidecars that stay, API servers that are away or have just started.

`make test` plays one of them, `make campaign NAME=ends` all.
"""

from __future__ import annotations

import json
import os
import time
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from airflow_home import Home
from campaigns.kubernetes.recorder import recording
from workload_ends import core, recorded_workload

pytestmark = [pytest.mark.e2e]
IN_CAMPAIGN = pytest.mark.skipif(not os.environ.get("ML_METRICS_ENDS"), reason="`make campaign NAME=ends` plays this")

AWAY_SECONDS, STARTING_SECONDS = 40.0, 4.0
"""The outage is longer than the half a minute after which runs once ended."""
SIDECAR = {"name": "proxy", "image": "local/image:1", "command": ["sleep", "600"]}
MARK_AND_WORK = """
import os, time
open("{shared}/running", "w").close()
time.sleep(8)
"""


@pytest.mark.parametrize(
    ("name", "hosts", "deferrable"),
    [("sidecar", 1, "False"), pytest.param("sidecars-of-hosts", 2, "True", marks=IN_CAMPAIGN)],
)
def test_a_sidecar_that_never_ends_makes_no_timeout(home: Home, name: str, hosts: int, deferrable: str) -> None:
    test = home.add_test(name, command=["true"], hosts=hosts, pod={"spec": {"containers": [SIDECAR]}})
    ((code, log),) = home.run_all([test], AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE=deferrable).values()
    assert code == 0, log[-3000:]
    workload = recorded_workload(home, test)
    assert (workload["status"], workload["failure_reason"]) == ("success", None)
    assert workload["detail"] == "the workload has ended, unlike its sidecars: proxy"
    pods = core(home).list_namespaced_pod("default").items
    assert [one for one in pods if one.metadata.deletion_timestamp is None] == []


class Server:
    """An API server that is away at first, then has no roles for a while, and once more while a pod runs."""

    def __init__(self, running: Path) -> None:
        self.running, self.first = running, 0.0
        self.second = 0.0
        self.refused = [0, 0, 0]
        """How many requests met the outage, the first start and the second."""

    def answer(self, method: str, path: str, _: bytes) -> tuple[int, bytes] | None:
        now = time.monotonic()
        self.first = self.first or now
        if now < self.first + AWAY_SECONDS:
            self.refused[0] += 1
            return 503, b"{}"
        if now < self.first + AWAY_SECONDS + STARTING_SECONDS:
            self.refused[1] += 1
            return self._forbidden(method, path)
        if self.running.exists():
            self.second = self.second or now
            if now < self.second + STARTING_SECONDS:
                self.refused[2] += 1
                return self._forbidden(method, path)
        return None

    @staticmethod
    def _forbidden(method: str, path: str) -> tuple[int, bytes]:
        verb = "list" if method == "GET" else "create"
        message = f'{path} is forbidden: User "airflow" cannot {verb} resource "pods" in API group ""'
        return 403, json.dumps({"kind": "Status", "status": "Failure", "message": message, "code": 403}).encode()


@pytest.fixture
def server(home: Home) -> Iterator[tuple[Server, dict[str, str]]]:
    content = yaml.safe_load(Path(home.local_cluster().ensure_running()).read_text())
    entry = content["clusters"][0]
    served = Server(home.shared / "running")
    authority = b64decode(entry["cluster"]["certificate-authority-data"]).decode()
    with recording(entry["cluster"]["server"], authority, served.answer) as requests:
        kubeconfig = home.path / "kubeconfig"
        kubeconfig.touch(0o600)
        kubeconfig.write_text(json.dumps({**content, "clusters": [{**entry, "cluster": {"server": requests.url}}]}))
        extra = {"kube_config_path": str(kubeconfig), "namespace": "default"}
        connection = json.dumps({"conn_type": "kubernetes", "extra": extra})
        yield (
            served,
            {"AIRFLOW__ML_METRICS__CLUSTER": "kubernetes", "AIRFLOW_CONN_KUBERNETES_DEFAULT": connection},
        )


@IN_CAMPAIGN
def test_an_api_server_that_is_away_and_starts_again_ends_no_run(
    home: Home, server: tuple[Server, dict[str, str]]
) -> None:
    served, environment = server
    program = MARK_AND_WORK.format(shared=home.shared)
    test = home.add_test("server-starts", command=["python3", "-c", program])
    ((code, log),) = home.run_all([test], **environment).values()
    workload = recorded_workload(home, test)
    assert (code, workload["status"], workload["attempts"]) == (0, "success", 1), (workload, log[-3000:])
    assert all(served.refused), f"requests that met the outage and the two starts: {served.refused}"
