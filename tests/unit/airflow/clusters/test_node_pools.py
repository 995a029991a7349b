from __future__ import annotations

from typing import Any

import pytest

from ml_metrics.airflow import NodePool
from ml_metrics.airflow.cluster_check import node_pools


def node(pool: str, *, ready: str = "True", **labels: str) -> dict[str, Any]:
    return {
        "metadata": {"labels": {"cloud.google.com/gke-nodepool": pool, **labels}},
        "status": {"conditions": [{"type": "Ready", "status": ready}], "allocatable": {"google.com/tpu": "4"}},
    }


def test_nodes_that_are_alike_are_one_pool() -> None:
    tpu = {
        "node.kubernetes.io/instance-type": "ct5lp-hightpu-4t",
        "cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice",
        "cloud.google.com/gke-tpu-topology": "2x4",
    }
    drained = {**node("a", **tpu), "spec": {"unschedulable": True}}
    nodes = [node("a", **tpu), node("a", ready="False", **tpu), drained, node("b")]
    assert node_pools(nodes) == [
        NodePool("a", "ct5lp-hightpu-4t", "tpu-v5-lite-podslice 2x4", 4, 3, 1),
        NodePool("b", "-", "", 4, 1, 1),
    ]


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"metadata": None, "status": None, "spec": None},
        {"metadata": {"labels": None}, "status": {"allocatable": None, "conditions": None}},
        {"status": {"allocatable": {"nvidia.com/gpu": "9" * 5000}}},
        {"status": {"allocatable": {"nvidia.com/gpu": "-1"}}},
        {"status": {"allocatable": {"nvidia.com/gpu": "1k"}}},
    ],
)
def test_any_node_of_the_api_is_read(odd: dict[str, Any]) -> None:
    assert node_pools([odd]) == [NodePool("-", "-", "", 0, 1, 0)]
