"""What a pod's status says, made from the state of its containers. Pure: the same states, the same status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from local_kube.records import Document

FINAL = ("Succeeded", "Failed")
DISRUPTION = "DisruptionTarget"


def waiting(reason: str, message: str | None = None) -> Document:
    """The state of a container that does not run yet."""
    return {"waiting": {"reason": reason, **({"message": message} if message else {})}}


def seen(state: Mapping[str, Any], container_id: str, message: str | None) -> Document:
    """A shim's state in Kubernetes' words."""
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
    """One entry of `containerStatuses`."""
    running = "running" in state
    return {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "ready": running,
        "started": running,
        "restartCount": restarts,
        "state": state,
        "lastState": last or {},
        **({"containerID": container_id} if container_id else {}),
    }


def phase_of(init: Sequence[Document], main: Sequence[Document]) -> str:
    """The phase that the containers' states add up to. One that will be restarted is waiting, not terminated."""
    if any(map(_exit_code, init)):
        return "Failed"
    states = [status["state"] for status in main]
    if all("terminated" in state for state in states):
        return "Failed" if any(map(_exit_code, main)) else "Succeeded"
    begun = any(status["restartCount"] or "waiting" not in status["state"] for status in main)
    return "Running" if begun or any(status["lastState"] for status in main) else "Pending"


def succeeded(status: Document) -> bool:
    """Whether a container ended well."""
    return bool(status["state"].get("terminated", {}).get("exitCode", 1) == 0)


def conditions(status: Document, init: Sequence[Document], main: Sequence[Document], now: str) -> list[Document]:
    """The conditions, each with the time of its last change."""
    ready = bool(main) and all(entry["ready"] for entry in main)
    ended = status["phase"] in FINAL
    why = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(status["phase"], "ContainersNotReady")
    initialized = all(map(succeeded, init))
    current = {
        "Initialized": (initialized, "ContainersNotInitialized"),
        "Ready": (ready and not ended, why),
        "ContainersReady": (ready and not ended, why),
        "PodScheduled": (True, ""),
    }
    before = {entry["type"]: entry for entry in status.get("conditions") or []}
    others = [entry for kind, entry in before.items() if kind not in current]
    return [*others, *(_condition(kind, *state, before.get(kind), now) for kind, state in current.items())]


def disrupted(status: Document, reason: str, message: str, now: str) -> None:
    """Say in a status that it was the cluster which ended the pod, and why. The first reason counts."""
    known = status.setdefault("conditions", [])
    if not any(entry["type"] == DISRUPTION for entry in known):
        said = {"type": DISRUPTION, "status": "True", "reason": reason, "message": message}
        status["conditions"] = [{**said, "lastProbeTime": None, "lastTransitionTime": now}, *known]


def _condition(kind: str, holds: bool, reason: str, before: Document | None, now: str) -> Document:  # noqa: FBT001
    value = "True" if holds else "False"
    since = before["lastTransitionTime"] if before and before["status"] == value else now
    entry = {"type": kind, "status": value, "lastProbeTime": None, "lastTransitionTime": since}
    return entry if holds else {**entry, "reason": reason}


def _exit_code(status: Document) -> int:
    return int(status["state"].get("terminated", {}).get("exitCode", 0))
