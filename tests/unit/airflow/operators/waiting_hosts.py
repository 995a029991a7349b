"""A process of the task of a workload on several hosts, in a cluster that answers as a test wants."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from ml_metrics import TestDefinition
from ml_metrics.airflow.clusters.outcome import INDEX, Hosts
from ml_metrics.airflow.operators import cluster, run_hosts
from ml_metrics.airflow.operators import run_hosts as host_logs
from ml_metrics.airflow.operators.run_hosts import RunHosts
from ml_metrics.core.model import Run, Workload
from ml_metrics.measure import ContainerLog
from ml_metrics.store.run_folder import RunFolder

NOW = datetime.now(UTC)
RUN = Run("t", "t", "r", "local")
FAILED = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}
COMPLETE = {"type": "Complete", "status": "True"}


def pod(
    host: int, exit_code: int | None = None, *, waits: str = "", ended: int = 0, sidecar: str = ""
) -> dict[str, Any]:
    """A host that runs, has ended some seconds ago, or waits for a reason; a sidecar of it runs."""
    at, end = (NOW - timedelta(minutes=5)).isoformat(), (NOW - timedelta(seconds=60 - ended)).isoformat()
    state: dict[str, Any] = {"running": {"startedAt": at}}
    if exit_code is not None:
        state = {"terminated": {"exitCode": exit_code, "startedAt": at, "finishedAt": end}}
    if waits:
        state = {"waiting": {"reason": waits}}
    phase = "Pending" if waits else "Running" if exit_code is None else "Failed" if exit_code else "Succeeded"
    others = [{"name": sidecar, "state": {"running": {"startedAt": at}}}] if sidecar else []
    return {
        "metadata": {"name": f"p{host}", "uid": f"u{host}", "annotations": {INDEX: str(host)}},
        "spec": {"containers": [{"name": "base"}, *({"name": sidecar} for _ in others)]},
        "status": {"phase": phase, "containerStatuses": [{"name": "base", "state": state}, *others]},
    }


def hosts(*pods: dict[str, Any], condition: dict[str, str] | None = None, since: float = 0.0) -> Hosts:
    """The state of a Job of two hosts, which was created some minutes ago."""
    metadata = {"name": "j", "uid": "j", "creationTimestamp": (NOW - timedelta(minutes=since)).isoformat()}
    conditions = [condition] if condition else []
    return Hosts({"metadata": metadata, "spec": {"completions": 2}, "status": {"conditions": conditions}}, pods)


RUNNING = hosts(pod(0), pod(1))
SUCCEEDED = hosts(pod(0, 0), pod(1, 0), condition=COMPLETE)
BROKEN = hosts(pod(0, 1, ended=20), pod(1, 3), condition=FAILED)
STARTING = hosts(pod(0))


class Cluster:
    """A cluster that gives its answers in order, and repeats the last one."""

    def __init__(self) -> None:
        self.answers: list[Hosts | Exception] = [SUCCEEDED]
        self.done: list[str] = []
        self.read = set[str]()
        self.job: Any = None
        self.refuses: dict[str, Exception] = {}

    def _do(self, what: str) -> None:
        self.done.append(what)
        if error := self.refuses.get(what.partition(" ")[0]):
            raise error

    def newest_job(self) -> Any:
        return self.job

    def remove_all(self) -> None:
        self._do("remove")

    def create_service(self, test: TestDefinition, name: str) -> None:
        self._do(f"service {test.name} {name}")

    def adopt_service(self, name: str) -> None:
        self._do(f"adopt {name}")

    def read_hosts(self, name: str, *, with_events: bool = False) -> Hosts:
        del with_events
        self.read.add(name)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


class Process:
    """A process of the task, whose Job gets the name `job-NAME`."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **more: Any) -> None:
        monkeypatch.setenv("AIRFLOW__ML_METRICS__STORAGE_ROOT", str(tmp_path))
        monkeypatch.setattr(run_hosts, "POLL_SECONDS", 0.0)
        monkeypatch.setattr(host_logs, "RETRY_SECONDS", 0.001)
        monkeypatch.setattr(cluster, "SETTLING", timedelta())
        self.folder, self.cluster = RunFolder(str(tmp_path / "run")), Cluster()
        for module in ("run_hosts", "workload_base"):
            monkeypatch.setattr(f"ml_metrics.airflow.operators.{module}.folder_of", lambda *_: self.folder)
            monkeypatch.setattr(
                f"ml_metrics.airflow.operators.{module}.run_of", lambda test, _: replace(RUN, test=test)
            )
        content = {"name": "t", "image": "i", "command": ["x"], "hosts": 2, "namespace": "ns", "retries": 1}
        test = TestDefinition.model_validate({**content, "startup_timeout": "1h", **more})
        made: Any = RunHosts(task_id="run_workload", test=test, kubernetes_conn_id=None)
        made._objects = lambda: self.cluster
        made.use_cluster, made.write_identity = lambda: None, lambda _: self.cluster.done.append("identity")
        made.build_job_request_obj = lambda _: SimpleNamespace(
            metadata=SimpleNamespace(name=f"job-{made.name}", namespace="ns")
        )
        made.create_job = lambda request: self.cluster._do(f"job {request.metadata.name}")
        self.logs: dict[str, list[bytes]] = {}
        made._open_log = lambda name: self.logs.get(name, [])
        made.open_tail = self._tail
        made.wait_until_reachable = lambda: False
        self.task = made
        self.pushed: dict[str, str] = {}

    def _tail(self, name: str, log: ContainerLog) -> list[bytes]:
        if self.cluster.done[-1] == "remove":
            raise ApiException(status=404)
        return [f"{log.container} of {name}\n".encode()]

    def context(self, started: datetime = NOW) -> Any:
        states = {"r": {"run_workload": "running"}}
        ti = SimpleNamespace(
            log_url="", start_date=started, max_tries=3, try_number=1, dag_id="t", run_id="r", task_id="run_workload",
            xcom_push=lambda key, value: self.pushed.update({key: value}), get_task_states=lambda **_: states,
        )  # fmt: skip
        return {"ti": ti, "dag_run": SimpleNamespace(start_date=NOW, run_after=NOW)}

    def execute(self, *answers: Hosts | Exception, started: datetime = NOW) -> Workload:
        """Execute the task while the cluster answers this, and return what it has recorded."""
        self.cluster.answers = list(answers) or self.cluster.answers
        self.task.execute(self.context(started))
        return self.recorded

    @property
    def recorded(self) -> Workload:
        found = self.folder.read_workload()
        assert found is not None
        return found
