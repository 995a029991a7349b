from __future__ import annotations

import time
from datetime import timedelta
from types import SimpleNamespace
from unittest.mock import Mock, patch

import pytest
from airflow.sdk.exceptions import AirflowException
from kubernetes.client import V1ObjectMeta, V1Pod
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import MaxRetryError, ProtocolError

from ml_metrics.operators import outage
from ml_metrics.operators.outage import is_outage, wait_for_answer
from ml_metrics.operators.workload_base import PodWatch


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
    monkeypatch.setattr(outage, "POLL_SECONDS", 0.001)
    answers: list[Exception] = [ConnectionRefusedError(), ApiException(status=503)]

    def ask() -> None:
        if answers:
            raise answers.pop()

    assert wait_for_answer(ask, timedelta(minutes=1))
    assert answers == []


def test_requests_are_repeated_until_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage, "POLL_SECONDS", 0.001)

    def ask() -> None:
        raise ConnectionRefusedError

    assert not wait_for_answer(ask, timedelta(seconds=0.01))


def test_other_errors_are_raised() -> None:
    def ask() -> None:
        raise ApiException(status=403)

    with pytest.raises(ApiException):
        wait_for_answer(ask, timedelta(minutes=1))
