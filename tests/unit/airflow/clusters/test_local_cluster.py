"""The adapter for the optional package local-kube."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from kubernetes import client, config

from ml_metrics import ConfigError
from ml_metrics.airflow import cluster_kubeconfig
from ml_metrics.airflow.clusters import local_cluster
from ml_metrics.airflow.clusters.local_cluster import Access, refusal
from ml_metrics.core.errors import ClusterError
from ml_metrics.core.settings import Settings
from ml_metrics.ui.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "local_kube"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "local_kube", None)


@pytest.fixture
def root(tmp_path: Path) -> Iterator[str]:
    yield str(tmp_path / "cluster")
    assert main(["cluster", "stop", "--root", str(tmp_path / "cluster")]) == 0


@pytest.mark.usefixtures("not_installed")
@pytest.mark.parametrize("setting", ["local", "auto"])
def test_without_local_kube_a_run_on_it_gets_a_clear_error(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__CLUSTER", setting)
    monkeypatch.setattr("ml_metrics.airflow.connections.find_connection", lambda _: None)
    with pytest.raises(ClusterError) as caught:
        cluster_kubeconfig()
    assert str(caught.value) == (
        "[ml_metrics] cluster: workloads would run on the local cluster, but the package local-kube is not installed "
        "here. Define a Kubernetes connection (setting `kubernetes_conn_id`), or install the extra `local`: "
        "pip install 'airflow-provider-ml-metrics[local]'"
    )


@pytest.mark.usefixtures("not_installed")
def test_without_local_kube_its_command_gets_the_same_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "start", "--root", "x"]) == 2
    assert "the package local-kube is not installed here" in capsys.readouterr().err


def test_errors_of_local_kube_become_those_of_ml_metrics(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ClusterError, match="cannot keep its state here"):
        local_cluster.start(str(tmp_path / "file" / "cluster"), None)


def test_importing_the_adapter_imports_no_local_kube() -> None:
    modules = "ml_metrics.airflow.clusters.local_cluster, ml_metrics.airflow.connections"
    program = f"import {modules}, sys; print('local_kube' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "False\n"


def test_workloads_find_their_volumes_in_variables_of_ml_metrics(root: str) -> None:
    core = client.CoreV1Api(config.new_client_from_config(local_cluster.start(root, None)))
    container = {
        "name": "base",
        "image": "python",
        "command": [
            "sh",
            "-c",
            "echo x > $ML_METRICS_MOUNT_MY_DATA/file; cat /my-data/file; env | grep -c LOCAL_KUBE_MOUNT",
        ],
        "volumeMounts": [{"name": "my-data", "mountPath": "/my-data"}],
    }
    spec = {"restartPolicy": "Never", "containers": [container], "volumes": [{"name": "my-data", "emptyDir": {}}]}
    core.create_namespaced_pod("default", {"metadata": {"name": "one"}, "spec": spec})
    log = core.read_namespaced_pod_log("one", "default", follow=True, _preload_content=False)
    assert log.data.decode() == "x\n0\n"


@pytest.mark.parametrize(
    ("line", "confine", "is_refusal"),
    [
        ("PermissionError: [Errno 13] Permission denied: '/home/me/venv/pyvenv.cfg'", "auto", True),
        ("sh: 1: cannot open /data/x: Permission denied", "require", True),
        ("sh: 1: cannot open /data/x: Permission denied", "off", False),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/data/x'", "auto", False),
    ],
)
def test_a_refusal_names_the_setting_that_opens_a_folder(line: str, confine: str, is_refusal: bool) -> None:
    found = refusal(["begins", line, "ends"], Settings(local_cluster_confine=confine))
    assert ("[ml_metrics] local_cluster_folders" in found) is is_refusal


def test_the_settings_say_what_workloads_may_reach(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    (tmp_path / "dags").mkdir()
    (tmp_path / "other").touch()
    settings = Settings(
        storage_root="gs://bucket/runs", local_image="/project", local_cluster_folders=" /data , ~/more"
    )
    access = Access.of(settings)
    assert access.hidden[0] == tmp_path
    assert Path("gs://bucket/runs") not in access.hidden
    assert access.shared == (Path("/data"), Path("~/more").expanduser())
    beside = Access.of(replace(settings, local_image=str(tmp_path))).hidden
    assert {tmp_path / "airflow.cfg", tmp_path / "airflow.db-wal", tmp_path / "other"} <= set(beside)
    assert not {tmp_path, tmp_path / "dags"} & set(beside)
    with pytest.raises(ConfigError, match="'yes' is not one of auto, require, off"):
        Access.of(replace(settings, local_cluster_confine="yes"))
