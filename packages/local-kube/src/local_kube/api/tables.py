"""Tables for `kubectl get`, whose rows and columns the server renders."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from local_kube.kinds import CONFIG_MAP, EVENT, JOB, NAMESPACE, NODE, POD, SECRET, SERVICE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from starlette.requests import Request

    from local_kube.json_files import Document

FINAL_CONDITIONS = ("Complete", "Failed")
UNITS = ((86400, "d"), (3600, "h"), (60, "m"))


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of one kind: their names, those for `-o wide` only, and the cells of an object."""

    names: tuple[str, ...]
    wide: tuple[str, ...]
    cells: Callable[[Document], list[Any]]

    def table(self, documents: Iterable[Document], version: str) -> Document:
        """Return a `Table` of objects."""
        columns = [(name, 0) for name in self.names] + [(name, 1) for name in self.wide]
        return {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": {"resourceVersion": version},
            "columnDefinitions": [
                {"name": name, "type": "string", "format": _format(name), "description": name, "priority": priority}
                for name, priority in columns
            ],
            "rows": [{"cells": self.cells(document), "object": _metadata(document)} for document in documents],
        }


def is_requested_by(request: Request) -> bool:
    """Return whether a client prefers a table over the objects."""
    accept = request.headers.get("accept", "")
    return "as=Table" in accept.partition(",")[0] and "g=meta.k8s.io" in accept


def pod_cells(pod: Document) -> list[Any]:
    """Return NAME, READY, STATUS, RESTARTS, AGE; IP, NODE."""
    entries = pod["status"].get("containerStatuses") or []
    ready = f"{sum(entry['ready'] for entry in entries)}/{len(pod['spec']['containers'])}"
    restarts = sum(entry["restartCount"] for entry in entries)
    where = [pod["status"].get("podIP", "<none>"), pod["spec"].get("nodeName", "<none>")]
    return [_name(pod), ready, pod_status(pod), restarts, _age(pod), *where]


def pod_status(pod: Document) -> str:
    """Return a pod's STATUS, as kubectl words it."""
    status = pod["status"]
    result = str(status.get("reason") or status["phase"])
    for number, entry in enumerate(status.get("initContainerStatuses") or []):
        state = entry["state"]
        if "terminated" in state and state["terminated"]["exitCode"] == 0:
            continue
        reason = next(iter(state.values())).get("reason")
        if reason and reason != "PodInitializing":
            return f"Init:{reason}"
        return f"Init:{number}/{len(status['initContainerStatuses'])}"
    for entry in reversed(status.get("containerStatuses") or []):
        result = next(iter(entry["state"].values())).get("reason") or result
    return "Terminating" if "deletionTimestamp" in pod["metadata"] else result


def event_cells(event: Document) -> list[Any]:
    """Return LAST SEEN, TYPE, REASON, OBJECT, MESSAGE."""
    involved = event["involvedObject"]
    name = f"{involved['kind'].lower()}/{involved['name']}"
    return [age(event["lastTimestamp"]), event["type"], event["reason"], name, event["message"]]


def age(moment: str) -> str:
    """Return the time since a moment, in one unit."""
    return _format_duration((datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds())


def _format_duration(duration: float) -> str:
    seconds = max(0, int(duration))
    size, unit = next(((size, unit) for size, unit in UNITS if seconds >= 2 * size), (1, "s"))
    return f"{seconds // size}{unit}"


def job_cells(job: Document) -> list[Any]:
    """Return NAME, STATUS, COMPLETIONS, DURATION, AGE; CONTAINERS, IMAGES, SELECTOR."""
    spec, status = job["spec"], job["status"]
    wanted = spec.get("completions")
    done = f"{status.get('succeeded', 0)}/{'1' if wanted is None else wanted}"
    containers = spec["template"]["spec"]["containers"]
    names, images = (",".join(container.get(key, "") for container in containers) for key in ("name", "image"))
    selector = ",".join(f"{name}={value}" for name, value in spec["selector"].get("matchLabels", {}).items())
    return [_name(job), job_status(job), done, _duration(status), _age(job), names, images, selector]


def job_status(job: Document) -> str:
    """Return a Job's STATUS, as kubectl words it."""
    true = [entry["type"] for entry in job["status"].get("conditions") or [] if entry["status"] == "True"]
    if "deletionTimestamp" in job["metadata"]:
        return "Terminating"
    return next((condition for condition in ("Complete", "Failed", "Suspended", *true) if condition in true), "Running")


def _duration(status: Document) -> str:
    if "startTime" not in status:
        return ""
    start = datetime.fromisoformat(status["startTime"])
    final = [entry for entry in status.get("conditions") or [] if entry["type"] in FINAL_CONDITIONS]
    end = datetime.fromisoformat(max(entry["lastTransitionTime"] for entry in final)) if final else datetime.now(UTC)
    return _format_duration((end - start).total_seconds())


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
