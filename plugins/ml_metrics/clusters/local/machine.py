"""The cluster's one node and its namespaces: there to be looked at."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ml_metrics.clusters.local.discovery import version
from ml_metrics.clusters.local.records import Document, now
from ml_metrics.clusters.local.scheduling import NODE, Node

if TYPE_CHECKING:
    from ml_metrics.clusters.local.store import Store


class Machine:
    """What answers for nodes and namespaces."""

    def __init__(self, store: Store, node: Node) -> None:
        self._store = store
        self._node = node
        self._since = now()

    def nodes(self) -> list[Document]:
        """The machine as a node. What it offers without limit is told as what it has."""
        has = {"cpu": os.cpu_count() or 1, "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")}
        offers = {name: f"{amount:g}" for name, amount in self._node.resources.items()}
        capacity = {**{name: str(amount) for name, amount in has.items()}, **offers, "pods": str(self._node.max_pods)}
        return [
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {**self._metadata(NODE), "labels": self._node.all_labels},
                "spec": {},
                "status": {
                    "capacity": capacity,
                    "allocatable": capacity,
                    "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
                    "nodeInfo": {"kubeletVersion": version()["gitVersion"]},
                },
            }
        ]

    def namespaces(self) -> list[Document]:
        """Every namespace that has a pod, and the default one. A namespace exists by being used."""
        names = sorted({"default", *(namespace for namespace, _ in self._store.pods)})
        return [
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {**self._metadata(name), "labels": {"kubernetes.io/metadata.name": name}},
                "spec": {},
                "status": {"phase": "Active"},
            }
            for name in names
        ]

    def _metadata(self, name: str) -> Document:
        return {"name": name, "uid": name, "creationTimestamp": self._since, "resourceVersion": "1"}
