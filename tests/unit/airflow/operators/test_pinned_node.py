"""Which runs are kept on a node, and what becomes of their pods."""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes.client import models as k8s

from ml_metrics.airflow.operators.run_workload import HOSTNAME, pin, pinned_node
from ml_metrics.pipeline.experiments import conf_of


@pytest.mark.parametrize(
    ("conf", "params", "node"),
    [
        (conf_of("image", "app:1", "gke-a-1"), (), "gke-a-1"),
        (conf_of("image", "app:1"), (), ""),
        ({"trial_node": "n1"}, (), ""),
        ({"trial": "no", "trial_node": "n1"}, (), ""),
        ({"trial": "yes", "trial_node": "n1"}, ("trial",), ""),
        ({"trial": "yes", "trial_node": "n1"}, ("trial_node",), ""),
        ({"trial": "yes", "trial_node": "n1\n"}, (), ""),
        ({"trial": "yes", "trial_node": "-n1"}, (), ""),
        ({"trial": "yes", "trial_node": ["n1"]}, (), ""),
    ],
)
def test_only_trials_are_kept_on_a_node(conf: dict[str, Any], params: tuple[str, ...], node: str) -> None:
    assert pinned_node(conf, params) == node


def test_the_selectors_of_the_test_stay() -> None:
    pod = k8s.V1Pod(spec=k8s.V1PodSpec(containers=[], node_selector={"pool": "a100"}))
    pin(pod, "")
    assert pod.spec.node_selector == {"pool": "a100"}
    pin(pod, "n1")
    assert pod.spec.node_selector == {"pool": "a100", HOSTNAME: "n1"}
