"""The read-only objects that describe the cluster: its one node and its namespaces."""

from __future__ import annotations

import os
import platform
import sys
from typing import TYPE_CHECKING

from local_kube.api.discovery import version
from local_kube.formats import now
from local_kube.node import NODE_NAME, Node, architecture

if TYPE_CHECKING:
    from local_kube.json_files import Document
    from local_kube.state.store import Store


class NodeObjects:
    """Makes the objects of the node and of the namespaces."""

    def __init__(self, store: Store, node: Node) -> None:
        self._store = store
        self._node = node
        self._started_at = now()

    def nodes(self) -> list[Document]:
        """Return the node. The capacity of an unlimited resource is what the machine has."""
        machine = {"cpu": os.cpu_count() or 1, "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")}
        offered = {name: _quantity(amount) for name, amount in self._node.resources.items()}
        max_pods = {"pods": str(self._node.max_pods)}
        capacity = {**{name: str(amount) for name, amount in machine.items()}, **offered, **max_pods}
        return [
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {**self._metadata(NODE_NAME), "labels": self._node.all_labels},
                "spec": {},
                "status": {
                    "capacity": capacity,
                    "allocatable": capacity,
                    "conditions": [
                        {
                            "type": "Ready",
                            "status": "True",
                            "reason": "KubeletReady",
                            "message": "the server responds",
                            "lastHeartbeatTime": now(),
                            "lastTransitionTime": self._started_at,
                        }
                    ],
                    "nodeInfo": _node_info(),
                },
            }
        ]

    def namespaces(self) -> list[Document]:
        """Return `default` and every namespace that has a pod. Namespaces need not be created."""
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
        return {"name": name, "uid": name, "creationTimestamp": self._started_at, "resourceVersion": "1"}


def _node_info() -> Document:
    """Return every field of `nodeInfo`, because clients reject a node without all of them."""
    system = platform.uname()
    server_version = version()["gitVersion"]
    return {
        "architecture": architecture(),
        "bootID": "",
        "containerRuntimeVersion": f"process://{server_version}",
        "kernelVersion": system.release,
        "kubeProxyVersion": server_version,
        "kubeletVersion": server_version,
        "machineID": "",
        "operatingSystem": sys.platform,
        "osImage": system.system,
        "systemUUID": "",
    }


def _quantity(amount: float) -> str:
    """Return an amount exactly, in thousandths if it is not whole."""
    return str(int(amount)) if amount == int(amount) else f"{round(amount * 1000)}m"
