"""The node of a trial that is compared with an earlier one: both run on one node if the experiment asks for that."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ml_metrics.config.trial import NODE, TRIAL, YES

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kubernetes.client import models as k8s

HOSTNAME = "kubernetes.io/hostname"
"""The label with which every kubelet names its node."""
LABEL_VALUE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


def pinned_node(conf: Mapping[str, Any], params: Collection[str]) -> str:
    """Return the node that a run was started for; empty unless it is a trial.

    Args:
        conf: what the run was started with.
        params: the parameters of the test, whose names are theirs.
    """
    node = conf.get(NODE)
    is_trial = TRIAL not in params and NODE not in params and conf.get(TRIAL) == YES
    return node if is_trial and isinstance(node, str) and LABEL_VALUE.fullmatch(node) else ""


def pin(pod: k8s.V1Pod, node: str) -> None:
    """Let a pod run on one node only, among those that its test allows."""
    if node:
        pod.spec.node_selector = {**(pod.spec.node_selector or {}), HOSTNAME: node}
