from __future__ import annotations

from typing import Any

import pytest

from ml_metrics.config.definition import TestDefinition
from ml_metrics.errors import ConfigError
from ml_metrics.operators.cluster import COMPOSER_NAMESPACE, place_of


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
