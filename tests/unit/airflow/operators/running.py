"""A process of the task of a workload, in a cluster that answers as a test wants."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from kubernetes.client.exceptions import ApiException

from kubeconfigs import kubeconfig, written
from ml_metrics import TestDefinition
from ml_metrics.airflow.clusters.outcome import INDEX, Hosts, OnePod
from ml_metrics.airflow.operators import cluster, logs, run_workload
from ml_metrics.airflow.operators.objects import JobObjects, PodObjects
from ml_metrics.airflow.operators.run import RUN_KEY
from ml_metrics.airflow.operators.run_workload import RunWorkload
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


def one(*state: Any, since: float = 0.0, deleted: bool = False, **more: Any) -> OnePod:
    """The state of a single pod that was created some minutes ago."""
    made = pod(0, *state, **more)
    created = (NOW - timedelta(minutes=since)).isoformat()
    made["metadata"] |= {"namespace": "ns", "creationTimestamp": created}
    if deleted:
        made["metadata"]["deletionTimestamp"] = NOW.isoformat()
    return OnePod.of(made)


class Cluster:
    """A cluster that gives its answers in order, and repeats the last one."""

    def __init__(self) -> None:
        self.answers: list[Hosts | Exception] = [SUCCEEDED]
        self.done: list[str] = []
        self.asked = set[str]()
        self.there = False
        self.refuses: dict[str, Exception] = {}

    def _do(self, what: str) -> None:
        self.done.append(what)
        if error := self.refuses.get(what.partition(" ")[0]):
            raise error

    def is_there(self) -> bool:
        return self.there

    def remove_all(self) -> None:
        self._do("remove")

    def create(self, body: Any) -> None:
        self._do(f"create {body['metadata']['name']}")

    def adopt(self, name: str) -> None:
        self._do(f"adopt {name}")

    def read(self, name: str, *, with_events: bool = False) -> Hosts:
        del with_events
        self.asked.add(name)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def list_namespaced_event(self, *_: Any, **__: Any) -> dict[str, Any]:
        return {"items": []}


class Process:
    """A process of the task."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hosts: int = 2, **more: Any) -> None:
        monkeypatch.setenv("AIRFLOW__ML_METRICS__STORAGE_ROOT", str(tmp_path))
        monkeypatch.setattr(run_workload, "POLL_SECONDS", 0.0)
        monkeypatch.setattr(run_workload, "SHORT_POLL_SECONDS", 0.0)
        monkeypatch.setattr(run_workload, "CONFLICT_SECONDS", 0.01)
        monkeypatch.setattr(logs, "RETRY_SECONDS", 0.001)
        monkeypatch.setattr(cluster, "SETTLING", timedelta())
        self.folder, self.cluster = RunFolder(str(tmp_path / "run")), Cluster()
        monkeypatch.setattr(run_workload, "folder_of", lambda *_: self.folder)
        monkeypatch.setattr(run_workload, "run_of", lambda test, _: replace(RUN, test=test))
        content = {"name": "t", "image": "i", "command": ["x"], "hosts": hosts, "namespace": "ns", "retries": 1}
        test = TestDefinition.model_validate({**content, "startup_timeout": "1h", **more})
        made: Any = RunWorkload(task_id="run_workload", test=test, kubernetes_conn_id=None)
        made.labels = {RUN_KEY: RUN.key}
        kind: Any = PodObjects if made.is_single else JobObjects
        fake: Any = self.cluster
        fake.name_of, fake.lost = kind.name_of, kind(fake, "ns", RUN.key, test).lost
        made._objects = lambda: self.cluster
        made.use_cluster, made.write_identity = lambda: None, lambda _: self.cluster.done.append("identity")
        made.request = lambda _, name: {"metadata": {"name": name, "namespace": "ns"}}
        made.convert_config_file_to_dict = lambda: setattr(made, "_config_dict", {"clusters": []})
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


def context_of(test: str, folder: Path, monkeypatch: pytest.MonkeyPatch, **more: Any) -> dict[str, Any]:
    """The context of a run by hand, and a kubeconfig, for an operator that asks no cluster."""
    monkeypatch.setenv("AIRFLOW__ML_METRICS__STORAGE_ROOT", str(folder / "runs"))
    path = written(folder / "kubeconfig", kubeconfig({"server": "https://127.0.0.1:1"}))
    pushed: dict[str, Any] = {}
    ti = SimpleNamespace(
        dag_id=test, task_id="run_workload", run_id="manual__1", run_type="manual", triggering_user_name="alice",
        try_number=1, max_tries=3, map_index=-1, conf=None, start_date=NOW,
        xcom_push=lambda key, value: pushed.update({key: value}),
    )  # fmt: skip
    of_run = {"ti": ti, "dag": DAG(test, schedule=None), "dag_run": ti, "run_id": ti.run_id, "params": {"tag": "v7"}}
    return {**of_run, "pushed": pushed, "kubeconfig": str(path), **more}


def prepared(test: TestDefinition, context: dict[str, Any]) -> Any:
    """The operator before it asks for its workload."""
    made: Any = RunWorkload(task_id="run_workload", test=test)
    made.render_template_fields(context)
    made.write_identity(context)
    made.in_cluster, made.kubernetes_conn_id, made.config_file = False, None, context["kubeconfig"]
    return made
