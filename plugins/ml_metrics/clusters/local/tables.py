"""What `kubectl get` shows: Kubernetes lets the server lay out the rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ml_metrics.clusters.local.records import Document

SIZES = ((86400, "d"), (3600, "h"), (60, "m"))


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of one kind: their names, those that only `-o wide` shows, and the cells of an object."""

    names: tuple[str, ...]
    wide: tuple[str, ...]
    cells: Callable[[Document], list[Any]]

    def table(self, documents: Iterable[Document], version: str) -> Document:
        """A `Table` of objects."""
        shown = [(name, 0) for name in self.names] + [(name, 1) for name in self.wide]
        return {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": {"resourceVersion": version},
            "columnDefinitions": [
                {"name": name, "type": "string", "format": _format(name), "description": name, "priority": priority}
                for name, priority in shown
            ],
            "rows": [{"cells": self.cells(document), "object": _metadata(document)} for document in documents],
        }


def wanted(accept: str) -> bool:
    """Whether a client asks for a table."""
    return "as=Table" in accept.partition(",")[0] and "g=meta.k8s.io" in accept


def pod_cells(pod: Document) -> list[Any]:
    """NAME, READY, STATUS, RESTARTS, AGE; IP, NODE."""
    entries = pod["status"].get("containerStatuses") or []
    ready = f"{sum(entry['ready'] for entry in entries)}/{len(pod['spec']['containers'])}"
    restarts = sum(entry["restartCount"] for entry in entries)
    where = [pod["status"].get("podIP", "<none>"), pod["spec"].get("nodeName", "<none>")]
    return [pod["metadata"]["name"], ready, pod_word(pod), restarts, age(pod["metadata"]["creationTimestamp"]), *where]


def pod_word(pod: Document) -> str:
    """The one word for how a pod is."""
    status = pod["status"]
    word = str(status.get("reason") or status["phase"])
    for number, entry in enumerate(status.get("initContainerStatuses") or []):
        state = entry["state"]
        if "terminated" in state and state["terminated"]["exitCode"] == 0:
            continue
        reason = next(iter(state.values())).get("reason")
        if reason and reason != "PodInitializing":
            return f"Init:{reason}"
        return f"Init:{number}/{len(status['initContainerStatuses'])}"
    for entry in reversed(status.get("containerStatuses") or []):
        word = next(iter(entry["state"].values())).get("reason") or word
    if "deletionTimestamp" in pod["metadata"]:
        return "Terminating"
    return word


def event_cells(event: Document) -> list[Any]:
    """LAST SEEN, TYPE, REASON, OBJECT, MESSAGE."""
    about = event["involvedObject"]
    what = f"{about['kind'].lower()}/{about['name']}"
    return [age(event["lastTimestamp"]), event["type"], event["reason"], what, event["message"]]


def age(moment: str) -> str:
    """How long ago, in the largest unit that says something."""
    seconds = max(0, int((datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds()))
    size, unit = next(((size, unit) for size, unit in SIZES if seconds >= 2 * size), (1, "s"))
    return f"{seconds // size}{unit}"


PODS = Columns(("Name", "Ready", "Status", "Restarts", "Age"), ("IP", "Node"), pod_cells)
EVENTS = Columns(("Last Seen", "Type", "Reason", "Object", "Message"), (), event_cells)
NODES = Columns(
    ("Name", "Status", "Age"),
    (),
    lambda node: [node["metadata"]["name"], "Ready", age(node["metadata"]["creationTimestamp"])],
)
NAMESPACES = Columns(
    ("Name", "Status", "Age"),
    (),
    lambda space: [space["metadata"]["name"], "Active", age(space["metadata"]["creationTimestamp"])],
)
OBJECTS = Columns(
    ("Name", "Data", "Age"),
    (),
    lambda found: [
        found["metadata"]["name"],
        len(found.get("data") or {}),
        age(found["metadata"]["creationTimestamp"]),
    ],
)


def _format(name: str) -> str:
    return "name" if name == "Name" else ""


def _metadata(document: Document) -> Document:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": document["metadata"]}
