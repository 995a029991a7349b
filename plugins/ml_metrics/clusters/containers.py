"""The containers of a pod that have logs, and the environment variables that hold secrets. Pure functions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ml_metrics.clusters.outcome import NEVER_STARTED
from ml_metrics.logs.documents import ContainerLog, Role
from ml_metrics.logs.secrets import is_sensitive
from ml_metrics.model import WORKLOAD_CONTAINER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PARTS = (
    ("containers", "containerStatuses", Role.SIDECAR),
    ("initContainers", "initContainerStatuses", Role.INIT),
    ("ephemeralContainers", "ephemeralContainerStatuses", Role.SIDECAR),
)


def logs_of(pod: dict[str, Any], attempt: int, host: int | None = None) -> list[ContainerLog]:
    """Return the logs that a pod should have, the workload's first, each container's newest instance first."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    found: list[ContainerLog] = []
    for part, statuses, usual in PARTS:
        ends = {one.get("name"): one for one in status.get(statuses) or []}
        names = [str(one.get("name")) for one in spec.get(part) or []] or [str(name) for name in ends]
        for name in names:
            role = Role.WORKLOAD if part == "containers" and name == WORKLOAD_CONTAINER else usual
            found.extend(_instances(ContainerLog(attempt, name, role, host), ends.get(name) or {}))
    return sorted(found, key=lambda log: log.role is not Role.WORKLOAD)


def secrets_of(pod: dict[str, Any], more: Iterable[str] = ()) -> tuple[frozenset[str], frozenset[str]]:
    """Return the secret values in the variables of a pod, and the variables whose values Kubernetes adds.

    `more`: parts of names of variables that are sensitive, too.
    """
    values: set[str] = set()
    unknown: set[str] = set()
    extra = tuple(more)
    for container in _containers(pod):
        for variable in container.get("env") or []:
            name, value = str(variable.get("name")), variable.get("value")
            if (variable.get("valueFrom") or {}).get("secretKeyRef"):
                unknown.add(name)
            elif isinstance(value, str) and is_sensitive(name, extra) and not _is_number(value):
                values.add(value)
        sources = [source.get("secretRef") or {} for source in container.get("envFrom") or []]
        unknown.update(f"all of {source['name']}" for source in sources if source.get("name"))
    return frozenset(values), frozenset(unknown)


def _instances(log: ContainerLog, status: dict[str, Any]) -> Iterator[ContainerLog]:
    state, before = status.get("state") or {}, (status.get("lastState") or {}).get("terminated")
    ended = state.get("terminated")
    if ended and ended.get("reason") in NEVER_STARTED:
        yield replace(_ended(log, ended), note="its program never started")
    elif ended:
        yield _ended(log, ended)
    elif state.get("running"):
        yield log
    elif log.role is Role.WORKLOAD and not before:
        yield replace(log, note="the container never started")
    if before:
        yield replace(_ended(log, before), previous=True)


def _ended(log: ContainerLog, ended: dict[str, Any]) -> ContainerLog:
    code = ended.get("exitCode")
    return replace(
        log,
        exit_code=code if isinstance(code, int) else None,
        reason=str(ended.get("reason") or ""),
        finished_at=str(ended.get("finishedAt") or ""),
    )


def _containers(pod: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for part, *_ in PARTS:
        yield from (pod.get("spec") or {}).get(part) or []


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True
