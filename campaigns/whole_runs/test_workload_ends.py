"""Every way in which a workload fails, through whole DAGs: its status and reason in folder, row and message."""

from __future__ import annotations

from collections.abc import Iterator
from email import message_from_bytes, policy
from typing import Any

import pytest
from kubernetes import client

from airflow_home import Home
from local_kube import Node
from workload_ends import assert_reported, core, interfere

pytestmark = [pytest.mark.e2e]

NODE = Node(resources={"cpu": 64, "example.com/seat": 1})
GREEDY = "import time; held = bytearray(b'1') * (400 << 20); time.sleep(600)"
FILL = "head -c 9000000 /dev/zero > /data/file; exec sleep 600"
ENDS: list[tuple[str, dict[str, Any], str, str]] = [
    ("exits-three", {"command": ["sh", "-c", "exit 3"]}, "failure", "ExitCode:3"),
    (
        "killed-on-the-node",
        {"command": ["python3", "-c", "import os; os.kill(os.getpid(), 9)"]},
        "failure",
        "ExitCode:137",
    ),
    (
        "takes-too-much-memory",
        {"command": ["python3", "-c", GREEDY], "resources": {"limits": {"memory": "100Mi"}}},
        "failure",
        "OOMKilled",
    ),
    (
        "takes-too-much-disk",
        {"command": ["sh", "-c", FILL], "volumes": {"/data": {"scratch": "1Mi"}}},
        "failure",
        "Evicted",
    ),
    ("outlives-its-timeout", {"command": ["sleep", "600"], "timeout": "3s"}, "timeout", "DeadlineExceeded"),
    ("no-such-program", {"command": ["no-such-program"]}, "missed", "StartError"),
    ("no-such-image", {"image": "unreachable.invalid/image:1"}, "missed", "ErrImagePull|ImagePullBackOff"),
    ("no-such-secret", {"secrets": {"KEY": "absent/key"}}, "missed", "CreateContainerConfigError"),
    ("no-such-accelerator", {"accelerator": "v5litepod-4"}, "missed", "Unschedulable"),
    ("no-such-room", {"resources": {"cpu": 65}}, "missed", "Unschedulable"),
    ("no-pod-at-all", {"init_containers": [{"name": "No Name", "image": "i"}]}, "missed", "PodRejected"),
]


@pytest.fixture(scope="module", autouse=True)
def node(home: Home) -> Iterator[None]:
    """A node with limited resources."""
    earlier, cluster = home.local_cluster(), home.local_cluster(NODE)
    earlier.stop()
    cluster.ensure_running()
    yield
    cluster.stop()


@pytest.fixture(scope="module")
def ended(home: Home) -> dict[str, tuple[int, str]]:
    """Run all tests, and return their exit codes and Airflow's output."""
    for name, content, *_ in ENDS:
        home.add_test(name, **{"command": ["true"], "startup_timeout": "5s", **content})
    return home.run_all([name for name, *_ in ENDS])


@pytest.mark.parametrize(("name", "status", "reasons"), [(name, *end) for name, _, *end in ENDS])
def test_the_run_fails_and_reports_the_reason(
    home: Home, ended: dict[str, tuple[int, str]], name: str, status: str, reasons: str
) -> None:
    code, output = ended[name]
    assert code == 1, output[-3000:]
    assert_reported(home, name, status, *reasons.split("|"))


CRASH = """
import os, sys
for step in range(200):
    print("step", step, "\\r" + "\\x1b[31m", "loss", 1 / (1 + step), flush=True)
print("token", os.environ["SERVICE_TOKEN"], "</pre><script>alert(1)</script>", flush=True)
import no_such_module_NAME
"""


@pytest.mark.parametrize("deferrable", ["False", "True"])
def test_the_last_lines_of_every_container_are_saved_and_mailed(home: Home, deferrable: str) -> None:
    sidecar = {"name": "proxy", "image": "local/image:1", "command": ["sh", "-c", "echo listening; exec sleep 1"]}
    test = home.add_test(
        f"crashes-{deferrable.lower()}",
        # another error for each, since tests with the same error are one incident
        command=["python3", "-c", CRASH.replace("NAME", deferrable)],
        env={"SERVICE_TOKEN": "a-value-that-nobody-may-see"},
        init_containers=[{"name": "fetch", "image": "local/image:1", "command": ["echo", "fetched"]}],
        pod={"spec": {"containers": [sidecar]}},
    )
    home.run_all([test], AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE=deferrable)
    (folder,) = (home.runs / test).glob("*/_ml_metrics/logs")
    logs = {file.name: file.read_text() for file in folder.iterdir()}
    assert sorted(logs) == ["attempt-1-base.log", "attempt-1-fetch.log", "attempt-1-proxy.log"]
    assert logs["attempt-1-fetch.log"] == "fetched\n"
    assert logs["attempt-1-proxy.log"] == "listening\n"
    lines = logs["attempt-1-base.log"].splitlines()
    assert len(lines) == 100
    assert lines[0].startswith(" loss 0.00")
    error = f"ModuleNotFoundError: No module named 'no_such_module_{deferrable}'"
    assert lines[-1] == error
    (mail,) = home.mails(test)
    message = message_from_bytes(mail.read_bytes(), policy=policy.default)
    assert str(message["Subject"]).endswith(f"failed: {error}")
    for kind in ("plain", "html"):
        body = message.get_body((kind,))
        assert body is not None
        text = body.get_content()
        assert "The last 20 lines of the log of the container base" in text
        assert "ModuleNotFoundError: No module named" in text
        assert ("<script>" in text) == (kind == "plain")
        assert "nobody-may-see" not in text
    assert not any("nobody-may-see" in text for text in logs.values())


def test_a_pod_that_is_preempted(home: Home) -> None:
    test = home.add_test("preempted", command=["sleep", "600"], resources={"limits": {"example.com/seat": 1}})
    urgent = {
        "metadata": {"name": "urgent"},
        "spec": {
            "priority": 1000,
            "containers": [
                {
                    "name": "base",
                    "image": "local/image:1",
                    "command": ["true"],
                    "resources": {"limits": {"example.com/seat": 1}},
                }
            ],
        },
    }
    interfere(home, test, lambda _: core(home).create_namespaced_pod("default", urgent))
    core(home).delete_namespaced_pod("urgent", "default", grace_period_seconds=0)
    assert_reported(home, test, "failure", "Preempted")


def test_a_node_that_is_shut_down(home: Home) -> None:
    test = home.add_test("shut-down", command=["sleep", "600"])

    def shut_down(_: client.V1Pod) -> None:
        cluster = home.local_cluster()
        cluster.stop()
        cluster.ensure_running()

    interfere(home, test, shut_down)
    assert_reported(home, test, "failure", "NodeShutdown", "Evicted")
