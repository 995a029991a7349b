from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import MaxRetryError, ProtocolError

from kubeconfigs import kubeconfig, written
from ml_metrics import ConfigError, TestDefinition
from ml_metrics.airflow.operators import cluster, run_workload
from ml_metrics.airflow.operators.cluster import (
    COMPOSER_NAMESPACE,
    first_patience,
    is_outage,
    is_passing,
    is_refusal,
    place_of,
    wait_for_answer,
)
from ml_metrics.airflow.operators.run_workload import RunWorkload


def definition(**more: Any) -> TestDefinition:
    return TestDefinition.model_validate({"name": "t", "image": "i", "command": ["x"], **more})


@pytest.fixture
def composer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPOSER_ENVIRONMENT", "prod")
    monkeypatch.setenv("AIRFLOW__ML_METRICS__CLUSTER", "kubernetes")


@pytest.mark.usefixtures("composer")
def test_composer_runs_pods_in_its_own_namespace() -> None:
    place = place_of(definition())
    assert (place.namespace, place.connection) == (COMPOSER_NAMESPACE, "kubernetes_default")


@pytest.mark.usefixtures("composer")
@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"namespace": "mine"}, "in the namespace composer-user-workloads only, not in 'mine'"),
        ({"accelerator": "v5litepod-4"}, "single pods without accelerators only"),
        ({"hosts": 2}, "single pods without accelerators only"),
    ],
)
def test_tests_that_composer_cannot_run_are_rejected_with_a_solution(more: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match="give a GKE cluster of your own") as refused:
        place_of(definition(**more))
    assert why in str(refused.value)


def test_elsewhere_the_namespace_comes_from_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__CLUSTER", "kubernetes")
    monkeypatch.setenv("AIRFLOW__ML_METRICS__KUBERNETES_CONN_ID", "another")
    place = place_of(definition(namespace="mine"))
    assert (place.kubeconfig, place.connection, place.namespace) == (None, "another", "mine")


@pytest.mark.parametrize(
    ("error", "is_one"),
    [
        (MaxRetryError(None, "/api"), True),
        (ProtocolError("broken"), True),
        (ConnectionResetError(), True),
        *((ApiException(status=status), True) for status in (None, 0, 429, 500, 502, 503, 504)),
        (ApiException(status=404), False),
        (ApiException(status=403), False),
        (FileNotFoundError(), False),
        (ValueError(), False),
        (None, False),
    ],
)
def test_only_an_unreachable_cluster_is_an_outage(error: BaseException | None, is_one: bool) -> None:
    assert is_outage(error) is is_one


def test_requests_are_repeated_until_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "POLL_SECONDS", 0.001)
    answers: list[Exception] = [ConnectionRefusedError(), ApiException(status=503)]

    def request() -> None:
        if answers:
            raise answers.pop()

    assert wait_for_answer(request, timedelta(minutes=1))
    assert answers == []


def test_requests_are_repeated_until_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "POLL_SECONDS", 0.001)

    def request() -> None:
        raise ConnectionRefusedError

    assert not wait_for_answer(request, timedelta(seconds=0.01))


def test_other_errors_are_raised() -> None:
    def request() -> None:
        raise ApiException(status=403)

    with pytest.raises(ApiException):
        wait_for_answer(request, timedelta(minutes=1))


def refusal(status: int = 403, message: str = 'User "x" cannot list resource "pods" in API group ""') -> ApiException:
    error = ApiException(status=status)
    error.body = json.dumps({"message": message})
    return error


@pytest.mark.parametrize(
    ("error", "is_one"),
    [
        (refusal(), True),
        (refusal(401, "Unauthorized"), True),
        (refusal(403, 'pods "p" is forbidden: exceeded quota: small'), False),
        (refusal(403, 'pods "p" is forbidden: violates PodSecurity "baseline:latest": privileged'), False),
        (refusal(404, "cannot list resource "), False),
        (ApiException(status=503), False),
        (ValueError("cannot list resource "), False),
        (None, False),
    ],
)
def test_only_what_roles_do_not_allow_is_a_refusal(error: BaseException | None, is_one: bool) -> None:
    assert is_refusal(error) is is_one
    assert is_passing(error) is (is_one or is_outage(error))


def test_the_first_refusals_of_a_server_that_has_just_started_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "POLL_SECONDS", 0.001)
    answers: list[Exception] = [refusal(), refusal(401), ConnectionRefusedError()]

    def request() -> None:
        if answers:
            raise answers.pop()

    assert wait_for_answer(request, timedelta(minutes=1))
    assert answers == []


def test_refusals_that_stay_are_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "POLL_SECONDS", 0.001)
    monkeypatch.setattr(cluster, "SETTLING", timedelta(seconds=0.01))

    def request() -> None:
        raise refusal()

    with pytest.raises(ApiException):
        wait_for_answer(request, timedelta(minutes=1))


@pytest.mark.parametrize(("text", "seconds"), [("300", 300), ("0", 0), ("five", None), ("-1", None), ("1.5", None)])
def test_the_patience_before_a_pod_exists_is_a_setting(
    monkeypatch: pytest.MonkeyPatch, text: str, seconds: int | None
) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__CLUSTER_PATIENCE", text)
    if seconds is not None:
        assert first_patience() == timedelta(seconds=seconds)
        return
    with pytest.raises(ConfigError, match="is not a whole number of seconds"):
        first_patience()


@pytest.mark.parametrize(("created", "longest"), [(True, run_workload.MAX_OUTAGE), (False, timedelta(minutes=3))])
def test_a_workload_that_exists_is_waited_for_longer(
    monkeypatch: pytest.MonkeyPatch, created: bool, longest: timedelta
) -> None:
    waited: list[timedelta] = []
    monkeypatch.setattr(run_workload, "first_patience", lambda: timedelta(minutes=3))
    monkeypatch.setattr(run_workload, "wait_for_answer", lambda _, timeout: bool(waited.append(timeout)))
    task: Any = RunWorkload(task_id="run_workload", test=definition())
    task.created = created
    assert not task.wait_until_reachable()
    assert waited == [longest]


@pytest.mark.parametrize("by", ["option", "environment", "nothing"])
def test_the_triggerer_gets_the_kubeconfig_that_the_task_uses(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, by: str
) -> None:
    file = written(tmp_path / "kubeconfig", kubeconfig())
    task: Any = RunWorkload(task_id="run_workload", test=definition())
    task.config_file = str(file) if by == "option" else None
    monkeypatch.delenv("KUBECONFIG", raising=False)
    if by == "environment":
        monkeypatch.setenv("KUBECONFIG", str(file))
    task.convert_config_file_to_dict()
    servers = [one["cluster"]["server"] for one in (task._config_dict or {"clusters": []})["clusters"]]
    assert servers == ([] if by == "nothing" else ["https://k:6443"])


class Retrying(RunWorkload):
    """A task whose cluster answers as a test wants."""

    def use_cluster(self) -> None:
        """There is none."""

    def wait_until_reachable(self) -> bool:
        """Its API server comes back at once."""
        return True


@pytest.mark.parametrize(
    ("errors", "works"),
    [
        ([refusal(), refusal(401)], True),
        ([ApiException(status=503), refusal(), ApiException(status=503), refusal()], True),
        ([refusal(403, "exceeded quota: small")], False),
        ([ApiException(status=503)] * 11, False),
    ],
)
def test_an_action_is_repeated_until_the_server_has_its_roles(
    monkeypatch: pytest.MonkeyPatch, errors: list[Exception], works: bool
) -> None:
    monkeypatch.setattr(run_workload, "OUTAGE_POLL_SECONDS", 0.001)
    task, left = Retrying(task_id="run_workload", test=definition()), list(errors)

    def action() -> str:
        if left:
            raise left.pop(0)
        return "done"

    if works:
        assert task.retry_after_outages(action) == "done"
        return
    with pytest.raises(ApiException):
        task.retry_after_outages(action)
