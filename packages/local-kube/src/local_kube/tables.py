"""What `kubectl get` shows: Kubernetes lets the server lay out the rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from local_kube.kinds import CONFIG_MAP, EVENT, JOB, NAMESPACE, NODE, POD, SECRET, SERVICE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from local_kube.records import Document

ENDS = ("Complete", "Failed")
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
    return _in_words((datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds())


def _in_words(duration: float) -> str:
    seconds = max(0, int(duration))
    size, unit = next(((size, unit) for size, unit in SIZES if seconds >= 2 * size), (1, "s"))
    return f"{seconds // size}{unit}"


def job_cells(job: Document) -> list[Any]:
    """NAME, STATUS, COMPLETIONS, DURATION, AGE; CONTAINERS, IMAGES, SELECTOR."""
    spec, status = job["spec"], job["status"]
    wanted = spec.get("completions")
    done = f"{status.get('succeeded', 0)}/{'1' if wanted is None else wanted}"
    containers = spec["template"]["spec"]["containers"]
    selector = ",".join(f"{name}={value}" for name, value in spec["selector"].get("matchLabels", {}).items())
    return [
        job["metadata"]["name"],
        job_word(job),
        done,
        _duration(status),
        age(job["metadata"]["creationTimestamp"]),
        ",".join(container["name"] for container in containers),
        ",".join(container.get("image", "") for container in containers),
        selector,
    ]


def job_word(job: Document) -> str:
    """The one word for how a Job is."""
    holds = [entry["type"] for entry in job["status"].get("conditions") or [] if entry["status"] == "True"]
    if "deletionTimestamp" in job["metadata"]:
        return "Terminating"
    return next((word for word in ("Complete", "Failed", "Suspended", *holds) if word in holds), "Running")


def _duration(status: Document) -> str:
    if "startTime" not in status:
        return ""
    begun = datetime.fromisoformat(status["startTime"])
    ended = [entry["lastTransitionTime"] for entry in status.get("conditions") or [] if entry["type"] in ENDS]
    until = datetime.fromisoformat(max(ended)) if ended else datetime.now(UTC)
    return _in_words((until - begun).total_seconds())


COLUMNS = {
    POD: Columns(("Name", "Ready", "Status", "Restarts", "Age"), ("IP", "Node"), pod_cells),
    EVENT: Columns(("Last Seen", "Type", "Reason", "Object", "Message"), (), event_cells),
    NODE: Columns(("Name", "Status", "Age"), (), lambda node: [_name(node), "Ready", _age(node)]),
    NAMESPACE: Columns(("Name", "Status", "Age"), (), lambda space: [_name(space), "Active", _age(space)]),
    SECRET: Columns(
        ("Name", "Type", "Data", "Age"), (), lambda found: [_name(found), found["type"], _entries(found), _age(found)]
    ),
    CONFIG_MAP: Columns(("Name", "Data", "Age"), (), lambda found: [_name(found), _entries(found), _age(found)]),
    SERVICE: Columns(
        ("Name", "Type", "Cluster-IP", "Age"), (), lambda found: [_name(found), "ClusterIP", "None", _age(found)]
    ),
    JOB: Columns(("Name", "Status", "Completions", "Duration", "Age"), ("Containers", "Images", "Selector"), job_cells),
}


def _name(document: Document) -> Any:
    return document["metadata"]["name"]


def _age(document: Document) -> str:
    return age(document["metadata"]["creationTimestamp"])


def _entries(document: Document) -> int:
    return len(document.get("data") or {}) + len(document.get("binaryData") or {})


def _format(name: str) -> str:
    return "name" if name == "Name" else ""


def _metadata(document: Document) -> Document:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": document["metadata"]}
