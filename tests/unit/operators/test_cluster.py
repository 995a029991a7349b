from __future__ import annotations

import time
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock, patch

import pytest
from airflow.sdk.exceptions import AirflowException
from kubernetes.client import V1ObjectMeta, V1Pod
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import MaxRetryError, ProtocolError

from ml_metrics.config.definition import TestDefinition
from ml_metrics.errors import ConfigError
from ml_metrics.operators import cluster
from ml_metrics.operators.cluster import COMPOSER_NAMESPACE, is_outage, place_of, wait_for_answer
from ml_metrics.operators.workload_base import PodWatch


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
        (ApiException(status=503), True),
        (ApiException(status=429), True),
        (ApiException(status=404), False),
        (ApiException(status=403), False),
        (FileNotFoundError(), False),
        (ValueError(), False),
        (None, False),
    ],
)
def test_only_an_unreachable_cluster_is_an_outage(error: BaseException | None, is_one: bool) -> None:
    assert is_outage(error) is is_one


def test_an_outage_wrapped_by_the_provider_is_an_outage() -> None:
    client = SimpleNamespace(read_namespaced_pod=Mock(side_effect=MaxRetryError(None, "/api")))
    pod = V1Pod(metadata=V1ObjectMeta(name="p", namespace="n"))
    with patch.object(time, "sleep"), pytest.raises(AirflowException) as raised:
        PodWatch(kube_client=client).read_pod(pod)
    assert is_outage(raised.value)
    with pytest.raises(AirflowException) as later:  # noqa: PT012
        try:
            raise raised.value
        finally:
            raise AirflowException("the pod returned a failure")
    assert not is_outage(later.value)


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
