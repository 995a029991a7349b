"""kubectl, if it is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from harness import missing, wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from harness import Pods


@pytest.fixture(autouse=True)
def _kubectl() -> None:
    if shutil.which("kubectl") is None:
        missing("kubectl is not installed on this machine")


FILE = """\
apiVersion: v1
kind: Pod
metadata: {name: from-a-file, labels: {app: demo}}
spec:
  restartPolicy: Never
  containers: [{name: main, image: python, command: [sh, -c, "echo hello; sleep 600"]}]
"""


JOB = """\
apiVersion: v1
kind: Service
metadata: {name: workers}
spec: {clusterIP: None, selector: {job-name: from-a-file}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: from-a-file}
spec:
  completions: 2
  parallelism: 2
  completionMode: Indexed
  template:
    spec:
      restartPolicy: Never
      subdomain: workers
      containers: [{name: main, image: python, command: [sh, -c, "echo worker $JOB_COMPLETION_INDEX"]}]
"""


def kubectl(pods: Pods, home: Path, *arguments: str, check: bool = True) -> str:
    environment = {"KUBECONFIG": pods.kubeconfig, "HOME": str(home), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        ["kubectl", *arguments], capture_output=True, text=True, timeout=300, check=False, env=environment
    )
    assert not check or done.returncode == 0, done.stderr
    return done.stdout if check else done.stderr


def test_get_shows_rows(pods: Pods, tmp_path: Path) -> None:
    name = pods.create("sh", "-c", "exit 3")
    pods.ended(name)
    rows = kubectl(pods, tmp_path, "get", "pods", name, "-o", "wide").splitlines()
    assert rows[0].split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE"]
    assert rows[1].split()[:4] == [name, "0/1", "Error", "0"]
    assert rows[1].split()[5:] == ["127.0.0.1", "local"]
    assert kubectl(pods, tmp_path, "get", "pod", name, "-o", "jsonpath={.status.phase}") == "Failed"
    assert "local" in kubectl(pods, tmp_path, "get", "nodes")
    assert "Started container base" in kubectl(pods, tmp_path, "get", "events")


def test_logs_describe_and_delete(pods: Pods, tmp_path: Path) -> None:
    name = pods.create("sh", "-c", "echo one; sleep 0.5; echo two")
    pods.until(name, "Running")
    assert kubectl(pods, tmp_path, "logs", "-f", name) == "one\ntwo\n"
    text = kubectl(pods, tmp_path, "describe", "pod", name)
    assert "Exit Code:    0" in text
    assert "Successfully assigned" in text
    kubectl(pods, tmp_path, "delete", "pod", name)
    assert "not found" in kubectl(pods, tmp_path, "get", "pod", name, check=False)


def test_a_file_is_applied_waited_for_and_deleted(pods: Pods, tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(FILE)
    assert "created" in kubectl(pods, tmp_path, "apply", "-f", str(file))
    assert "condition met" in kubectl(
        pods, tmp_path, "wait", "--for=condition=Ready", "pod/from-a-file", "--timeout=30s"
    )
    assert "labeled" in kubectl(pods, tmp_path, "label", "pod", "from-a-file", "team=vision")
    assert "from-a-file" in kubectl(pods, tmp_path, "get", "pods", "-l", "team=vision,app=demo")
    assert wait_for(lambda: kubectl(pods, tmp_path, "logs", "-l", "app=demo")) == "hello\n"
    kubectl(pods, tmp_path, "delete", "-f", str(file), "--grace-period=1")


def test_a_job_is_applied_waited_for_described_and_deleted(pods: Pods, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(JOB)
    assert "job.batch/from-a-file created" in kubectl(pods, tmp_path, "apply", "-f", str(file))
    assert "unchanged" in kubectl(pods, tmp_path, "apply", "-f", str(file))
    wait = ("wait", "--for=condition=Complete", "job/from-a-file", "--timeout=30s")
    assert "condition met" in kubectl(pods, tmp_path, *wait)
    rows = kubectl(pods, tmp_path, "get", "jobs", "from-a-file").splitlines()
    assert rows[0].split() == ["NAME", "STATUS", "COMPLETIONS", "DURATION", "AGE"]
    assert rows[1].split()[:3] == ["from-a-file", "Complete", "2/2"]
    text = kubectl(pods, tmp_path, "describe", "job", "from-a-file")
    done = kubectl(pods, tmp_path, "get", "job", "from-a-file", "-o", "jsonpath={.status.completedIndexes}")
    assert done == "0,1"
    assert "SuccessfulCreate" in text
    logs = kubectl(pods, tmp_path, "logs", "-l", "job-name=from-a-file")
    assert sorted(logs.splitlines()) == ["worker 0", "worker 1"]
    assert "workers" in kubectl(pods, tmp_path, "get", "all")
    kubectl(pods, tmp_path, "delete", "-f", str(file))
    wait_for(lambda: not kubectl(pods, tmp_path, "get", "pods", "-l", "job-name=from-a-file", "-o", "name"))


def test_run_exec_and_version(pods: Pods, tmp_path: Path) -> None:
    run = ("run", "quick", "--image=python", "--restart=Never", "--command", "--", "sleep", "600")
    assert "created" in kubectl(pods, tmp_path, *run)
    pods.until("quick", "Running")
    assert "executes nothing" in kubectl(pods, tmp_path, "exec", "quick", "--", "ls", check=False)
    pods.delete("quick")
    assert "v1.33.0+local-kube" in kubectl(pods, tmp_path, "version")
