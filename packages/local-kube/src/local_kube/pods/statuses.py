"""The status of a pod, computed from the states of its containers. Pure functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from local_kube.json_files import Document

FINAL_PHASES = ("Succeeded", "Failed")
DISRUPTION = "DisruptionTarget"


def waiting(reason: str, message: str | None = None) -> Document:
    """Return the state of a container that has not started."""
    return {"waiting": {"reason": reason, **({"message": message} if message else {})}}


def container_state(state: Mapping[str, Any], container_id: str, message: str | None) -> Document:
    """Return a container state of Kubernetes for a state that the shim recorded."""
    if state["phase"] == "starting":
        return waiting("ContainerCreating")
    if state["phase"] == "running":
        return {"running": {"startedAt": state["started_at"]}}
    return {
        "terminated": {
            "exitCode": state["exit_code"],
            "reason": state["reason"],
            **({"message": message} if message else {}),
            "startedAt": state["started_at"],
            "finishedAt": state["finished_at"],
            "containerID": container_id,
        }
    }


def container_status(
    container: Document, state: Document, *, container_id: str = "", restarts: int = 0, last: Document | None = None
) -> Document:
    """Return one entry of `containerStatuses`."""
    running = "running" in state
    return {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "" if "waiting" in state else _image_id(container.get("image", "")),
        "ready": running,
        "started": running,
        "restartCount": restarts,
        "state": state,
        "lastState": last or {},
        **({"containerID": container_id} if container_id else {}),
    }


def _image_id(image: str) -> str:
    """Return the id of an image that names its digest. No other image has one, since none is pulled."""
    return image if "@sha256:" in image else ""


def pod_phase(init: Sequence[Document], main: Sequence[Document]) -> str:
    """Return the phase for the given container statuses. A container that will restart is waiting, not terminated."""
    if any(map(_exit_code, init)):
        return "Failed"
    states = [status["state"] for status in main]
    if all("terminated" in state for state in states):
        return "Failed" if any(map(_exit_code, main)) else "Succeeded"
    started = any(status["restartCount"] or "waiting" not in status["state"] for status in main)
    return "Running" if started or any(status["lastState"] for status in main) else "Pending"


def succeeded(status: Document) -> bool:
    """Return whether a container ended with exit code 0."""
    return bool(status["state"].get("terminated", {}).get("exitCode", 1) == 0)


def conditions(status: Document, init: Sequence[Document], main: Sequence[Document], now: str) -> list[Document]:
    """Return the conditions, each with the time of its last change."""
    ready = bool(main) and all(entry["ready"] for entry in main)
    ended = status["phase"] in FINAL_PHASES
    not_ready = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(status["phase"], "ContainersNotReady")
    initialized = all(map(succeeded, init))
    current = {
        "Initialized": (initialized, "ContainersNotInitialized"),
        "Ready": (ready and not ended, not_ready),
        "ContainersReady": (ready and not ended, not_ready),
        "PodScheduled": (True, ""),
    }
    before = {entry["type"]: entry for entry in status.get("conditions") or []}
    others = [entry for kind, entry in before.items() if kind not in current]
    return [*others, *(_condition(kind, *state, before.get(kind), now) for kind, state in current.items())]


def add_disruption(status: Document, reason: str, message: str, now: str) -> None:
    """Record in a status that the cluster ended the pod. Only the first reason is kept."""
    existing = status.setdefault("conditions", [])
    if not any(entry["type"] == DISRUPTION for entry in existing):
        added = {"type": DISRUPTION, "status": "True", "reason": reason, "message": message}
        status["conditions"] = [{**added, "lastProbeTime": None, "lastTransitionTime": now}, *existing]


def _condition(kind: str, holds: bool, reason: str, before: Document | None, now: str) -> Document:  # noqa: FBT001
    value = "True" if holds else "False"
    since = before["lastTransitionTime"] if before and before["status"] == value else now
    entry = {"type": kind, "status": value, "lastProbeTime": None, "lastTransitionTime": since}
    return entry if holds else {**entry, "reason": reason}


def _exit_code(status: Document) -> int:
    return int(status["state"].get("terminated", {}).get("exitCode", 0))
