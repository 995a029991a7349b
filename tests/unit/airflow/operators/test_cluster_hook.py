from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.sdk import Connection
from kubernetes.config import ConfigException

from kubeconfigs import kubeconfig, written
from ml_metrics import ConfigError
from ml_metrics.airflow.operators.cluster import CheckedHook
from ml_metrics.airflow.versions import AirflowNotFoundException


@pytest.fixture(params=["file", "path in the connection", "text in the connection", "usual file"])
def hook(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Every way in which a kubeconfig reaches a hook."""

    def make(user: dict[str, Any] | None = None) -> CheckedHook:
        path = written(tmp_path / "kubeconfig", kubeconfig(user=user))
        extra: dict[str, Any] = {}
        if request.param == "usual file":
            monkeypatch.setenv("KUBECONFIG", str(path))
        elif request.param == "path in the connection":
            extra = {"kube_config_path": str(path)}
        elif request.param == "text in the connection":
            extra = {"kube_config": json.dumps(kubeconfig(user=user))}
        connection = {"conn_type": "kubernetes", "extra": {"namespace": "n", **extra}}
        monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", json.dumps(connection))
        return CheckedHook(config_file=str(path) if request.param == "file" else None)

    return make


def test_a_token_connects(hook: Any) -> None:
    made = hook()
    configuration = made.core_v1_client.api_client.configuration
    assert configuration.host == "https://k:6443"
    assert "Bearer the-token" in configuration.api_key.values()
    assert made.get_namespace() == "n", "the rest of the connection still counts"


def test_no_program_runs(hook: Any, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    program = {"apiVersion": "client.authentication.k8s.io/v1", "command": "touch", "args": [str(ran)]}
    made = hook({"exec": program})
    with pytest.raises(ConfigError, match="'exec'"):
        _ = made.core_v1_client
    assert not ran.exists()


def test_the_setting_lets_programs_run(hook: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__KUBECONFIG_PROGRAMS", "yes")
    ran = tmp_path / "ran"
    program = {"apiVersion": "client.authentication.k8s.io/v1", "command": "touch", "args": [str(ran)]}
    made = hook({"exec": program})
    with suppress(Exception):  # the program prints no token, and there is no server
        made.core_v1_client.list_namespaced_pod("n", _request_timeout=0.1)
    assert ran.exists()


def test_what_was_checked_is_what_is_used(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(kubeconfig()))
    path.chmod(0o600)
    hook = CheckedHook(conn_id=None, config_file=str(path))
    client = hook.get_conn()
    path.write_text(yaml.safe_dump(kubeconfig({"server": "https://evil:1"}, {"exec": {"command": "touch"}})))
    assert hook.get_conn().configuration.host == client.configuration.host == "https://k:6443"


def test_without_any_kubeconfig_the_client_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nothing"))
    with pytest.raises(ConfigException, match="No configuration found"):
        CheckedHook(conn_id=None).get_conn()


def test_several_usual_files_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("{}")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/a:{tmp_path}/b")
    with pytest.raises(ConfigError, match="name one"):
        CheckedHook().get_conn()


def test_a_default_connection_that_does_not_exist_is_empty_and_configures_no_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(conn_id: str) -> None:
        raise AirflowNotFoundException(f"The conn_id `{conn_id}` isn't defined")

    monkeypatch.setattr("airflow.sdk.BaseHook.get_connection", missing)
    assert CheckedHook().conn_extras == {}
    assert type(CheckedHook.get_connection("kubernetes_default")) is Connection, "not a row of Airflow's database"
    with pytest.raises(AirflowNotFoundException):
        CheckedHook.get_connection("of-my-cluster")
