"""Whether the node has room for a pod, with the scheduler's messages."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from local_kube.formats import parse_quantity
from local_kube.pods import statuses

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from local_kube.json_files import Document
    from local_kube.node import Node


def unschedulable_reason(pod: Document, placed: Iterable[Document], node: Node) -> str | None:
    """Return why a pod cannot run beside those already placed; None if it can."""
    active = [other for other in placed if other["status"]["phase"] not in statuses.FINAL_PHASES]
    used = sum((requests(other) for other in active), Counter[str]())
    reasons = []
    if any(node.all_labels.get(key) != value for key, value in (pod["spec"].get("nodeSelector") or {}).items()):
        reasons.append("1 node(s) didn't match Pod's node affinity/selector")
    if len(active) >= node.max_pods:
        reasons.append("1 Too many pods")
    for resource, requested in requests(pod).items():
        offered = node.resources.get(resource, 0.0 if "/" in resource else None)
        if requested and offered is not None and used[resource] + requested > offered:
            reasons.append(f"1 Insufficient {resource}")
    if not reasons:
        return None
    preemption = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    return f"0/1 nodes are available: {', '.join(reasons)}. {preemption}"


def pods_to_preempt(pod: Document, placed: Sequence[Document], node: Node) -> list[Document]:
    """Return the pods to end so that a more urgent one fits: lowest priority first, then youngest first."""
    if pod["spec"].get("preemptionPolicy") == "Never":
        return []
    left = [other for other in placed if "deletionTimestamp" not in other["metadata"]]
    less_urgent = [other for other in reversed(left) if priority(other) < priority(pod)]
    chosen: list[Document] = []
    for other in sorted(less_urgent, key=priority):
        if unschedulable_reason(pod, left, node) is None:
            break
        left.remove(other)
        chosen.append(other)
    return chosen if unschedulable_reason(pod, left, node) is None else []


def priority(pod: Document) -> int:
    """Return a pod's priority."""
    return int(pod["spec"].get("priority") or 0)


def requests(pod: Document) -> Counter[str]:
    """Return what a pod requests: the sum of its containers, or its largest init container if that is more."""
    total: Counter[str] = Counter()
    for container in pod["spec"]["containers"]:
        total.update(_container_requests(container))
    for container in pod["spec"].get("initContainers") or []:
        total |= _container_requests(container)
    return total


def _container_requests(container: Document) -> Counter[str]:
    """Return what a container requests. A limit without a request counts as a request, as in Kubernetes."""
    resources = container.get("resources") or {}
    requested = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return Counter({name: parse_quantity(quantity) for name, quantity in requested.items()})
