"""Whether the one node of this cluster has room for a pod, in the scheduler's words."""

from __future__ import annotations

import platform
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from local_kube import statuses
from local_kube.quantities import amount

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from local_kube.records import Document

NODE = "local"
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class Node:
    """What this machine offers. CPU and memory are as much as a pod may ask for, unless they are told."""

    max_pods: int = 110
    """How many pods run at once; others wait."""
    resources: Mapping[str, float] = field(default_factory=dict)
    """What there is of `cpu`, `memory` and devices. A device that is not named is not there."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels beside the usual ones, for node selectors."""

    @property
    def all_labels(self) -> dict[str, str]:
        """What a node selector may ask for."""
        machine = platform.machine()
        usual = {
            "kubernetes.io/hostname": NODE,
            "kubernetes.io/os": sys.platform,
            "kubernetes.io/arch": MACHINES.get(machine, machine),
        }
        return {**usual, **self.labels}


def why_not(pod: Document, placed: Iterable[Document], node: Node) -> str | None:
    """Why a pod cannot be placed beside those that are; None if it can."""
    active = [other for other in placed if other["status"]["phase"] not in statuses.FINAL]
    used = sum((requests(other) for other in active), Counter[str]())
    wrong = []
    if any(node.all_labels.get(key) != value for key, value in (pod["spec"].get("nodeSelector") or {}).items()):
        wrong.append("1 node(s) didn't match Pod's node affinity/selector")
    if len(active) >= node.max_pods:
        wrong.append("1 Too many pods")
    for resource, wanted in requests(pod).items():
        offered = node.resources.get(resource, 0.0 if "/" in resource else None)
        if wanted and offered is not None and used[resource] + wanted > offered:
            wrong.append(f"1 Insufficient {resource}")
    if not wrong:
        return None
    helpless = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    return f"0/1 nodes are available: {', '.join(wrong)}. {helpless}"


def victims(pod: Document, placed: Sequence[Document], node: Node) -> list[Document]:
    """The pods to end so that a more urgent one has room: the least urgent first, and of those the youngest."""
    if pod["spec"].get("preemptionPolicy") == "Never":
        return []
    left = [other for other in placed if "deletionTimestamp" not in other["metadata"]]
    lesser = [other for other in reversed(left) if priority(other) < priority(pod)]
    chosen: list[Document] = []
    for other in sorted(lesser, key=priority):
        if why_not(pod, left, node) is None:
            break
        left.remove(other)
        chosen.append(other)
    return chosen if why_not(pod, left, node) is None else []


def priority(pod: Document) -> int:
    """How urgent a pod is."""
    return int(pod["spec"].get("priority") or 0)


def requests(pod: Document) -> Counter[str]:
    """What a pod asks for: its containers together, or its greediest init container. A limit alone is a request."""
    together: Counter[str] = Counter()
    for container in pod["spec"]["containers"]:
        together.update(_wanted(container))
    for container in pod["spec"].get("initContainers") or []:
        together |= _wanted(container)
    return together


def _wanted(container: Document) -> Counter[str]:
    resources = container.get("resources") or {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return Counter({name: amount(quantity) for name, quantity in asked.items()})
