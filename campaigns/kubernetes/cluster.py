"""An Airflow whose pods run in a real cluster."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kubernetes import client

from airflow_home import Home
from campaigns.kubernetes.access import Access
from campaigns.kubernetes.recorder import Requests
from ml_metrics.core.model import Workload
from ml_metrics.store.run_folder import RunFolder

IMAGE = os.environ.get("ML_METRICS_TEST_IMAGE", "python:3.11-slim")
"""An image with python3 that the cluster has or can pull."""
FIRST_WITH_INDEXED_JOBS = (1, 21)


@dataclass(frozen=True)
class Cluster:
    """An Airflow home, the permissions of its service account, and the requests that it made."""

    home: Home
    access: Access
    requests: Requests
    environment: dict[str, str]

    def add_test(self, name: str, program: str, **content: Any) -> str:
        """Add a test whose pod shares the run folders with this machine."""
        runs = str(self.home.runs)
        volumes = {runs: {"host_path": runs}, **content.pop("volumes", {})}
        own = {"image": IMAGE, "startup_timeout": "2m", "command": ["python3", "-u", "-c", program]}
        return self.home.add_test(name, **{**own, **content, "volumes": volumes})

    def run(self, test: str) -> tuple[Workload, str]:
        """Run a test, and return the outcome of its workload and the log of Airflow."""
        return self.run_all([test])[test]

    def run_all(self, tests: Sequence[str], **more: str) -> dict[str, tuple[Workload, str]]:
        """Run tests one after the other."""
        logs = self.home.run_all(tests, **{**self.environment, **more})
        return {test: (self._workload(test, log), log) for test, (_, log) in logs.items()}

    def _workload(self, test: str, log: str) -> Workload:
        folders = list((self.home.runs / test).glob("*"))
        assert len(folders) == 1, log[-5000:]
        workload = RunFolder(str(folders[0]), believe_unsigned=True).read_workload()
        assert workload is not None, log[-5000:]
        return workload

    @property
    def core(self) -> client.CoreV1Api:
        """The API with the account that runs the suite."""
        return client.CoreV1Api(self.access.admin)

    def pods(self, test: str) -> list[client.V1Pod]:
        """Return the pods of a test that are not being deleted."""
        found = self.core.list_namespaced_pod(self.access.namespace, label_selector=f"ml-metrics/test={test}")
        return [pod for pod in found.items if pod.metadata.deletion_timestamp is None]


def version(cluster: Cluster) -> tuple[int, int]:
    code = client.VersionApi(cluster.access.admin).get_code()
    return int(code.major), int(code.minor.rstrip("+"))


def has_indexed_jobs(cluster: Cluster) -> bool:
    return version(cluster) >= FIRST_WITH_INDEXED_JOBS
