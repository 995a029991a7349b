"""The node pools of a cluster, from the labels of its nodes."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

POOL = "cloud.google.com/gke-nodepool"
MACHINE = "node.kubernetes.io/instance-type"
ACCELERATORS = ("cloud.google.com/gke-tpu-accelerator", "cloud.google.com/gke-accelerator", "nvidia.com/gpu.product")
TOPOLOGY = "cloud.google.com/gke-tpu-topology"
DEVICES = ("google.com/tpu", "nvidia.com/gpu", "amd.com/gpu")


@dataclass(frozen=True, slots=True, order=True)
class NodePool:
    """Nodes that are alike."""

    name: str
    machine: str
    accelerator: str
    """With its topology, if any; empty without accelerators."""
    devices: int
    """The accelerators of one node that pods can use."""
    nodes: int = 0
    ready: int = 0


def node_pools(nodes: Iterable[dict[str, Any]]) -> list[NodePool]:
    """Return the pools of nodes, which are in the shape of Kubernetes' API."""
    found: dict[NodePool, list[bool]] = defaultdict(list)
    for node in nodes:
        labels = _mapping(_mapping(node, "metadata"), "labels")
        allocatable = _mapping(_mapping(node, "status"), "allocatable")
        accelerator = next((str(labels[key]) for key in ACCELERATORS if labels.get(key)), "")
        pool = NodePool(
            str(labels.get(POOL, "-")),
            str(labels.get(MACHINE, "-")),
            " ".join(filter(None, (accelerator, str(labels.get(TOPOLOGY, ""))))),
            sum(_number(allocatable.get(device)) for device in DEVICES),
        )
        found[pool].append(_is_ready(node))
    return sorted(
        NodePool(pool.name, pool.machine, pool.accelerator, pool.devices, len(ready), sum(ready))
        for pool, ready in found.items()
    )


def _is_ready(node: dict[str, Any]) -> bool:
    conditions = _mapping(node, "status").get("conditions") or []
    ready = any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)
    return ready and not _mapping(node, "spec").get("unschedulable")


def _mapping(value: dict[str, Any], key: str) -> dict[str, Any]:
    return value.get(key) or {}


def _number(value: Any) -> int:
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0  # noqa: PLR2004  (no node has more)
