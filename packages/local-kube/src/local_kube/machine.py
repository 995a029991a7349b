"""The cluster's one node and its namespaces: there to be looked at."""

from __future__ import annotations

import os
import platform
import sys
from typing import TYPE_CHECKING

from local_kube.discovery import version
from local_kube.records import Document, now
from local_kube.scheduling import MACHINES, NODE, Node

if TYPE_CHECKING:
    from local_kube.store import Store


class Machine:
    """What answers for nodes and namespaces."""

    def __init__(self, store: Store, node: Node) -> None:
        self._store = store
        self._node = node
        self._since = now()

    def nodes(self) -> list[Document]:
        """The machine as a node. What it offers without limit is told as what it has."""
        has = {"cpu": os.cpu_count() or 1, "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")}
        offers = {name: _quantity(amount) for name, amount in self._node.resources.items()}
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
                    "conditions": [
                        {
                            "type": "Ready",
                            "status": "True",
                            "reason": "KubeletReady",
                            "message": "it answers",
                            "lastHeartbeatTime": now(),
                            "lastTransitionTime": self._since,
                        }
                    ],
                    "nodeInfo": _node_info(),
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


def _node_info() -> Document:
    """What a node says of itself: all of it, because clients refuse a node that lacks any."""
    system = platform.uname()
    ours = version()["gitVersion"]
    return {
        "architecture": MACHINES.get(system.machine, system.machine),
        "bootID": "",
        "containerRuntimeVersion": f"process://{ours}",
        "kernelVersion": system.release,
        "kubeProxyVersion": ours,
        "kubeletVersion": ours,
        "machineID": "",
        "operatingSystem": sys.platform,
        "osImage": system.system,
        "systemUUID": "",
    }


def _quantity(amount: float) -> str:
    """An amount to the last byte, or in thousandths where it is not whole."""
    return str(int(amount)) if amount == int(amount) else f"{round(amount * 1000)}m"
