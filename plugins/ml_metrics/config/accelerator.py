"""What a test runs on, and what its pods ask of a cluster for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Kind(StrEnum):
    """The families of accelerators."""

    CPU = "cpu"
    GPU = "gpu"
    TPU = "tpu"


@dataclass(frozen=True, slots=True)
class Accelerator:
    """One entry of the catalogue, or one that a test describes itself."""

    name: str
    """As in the test's name: `cpu`, `h100x8`, `v5litepod-16`."""
    kind: Kind
    count: int = 0
    """Chips or GPUs in all hosts together."""
    hosts: int = 1
    """How many pods it takes to use all of it."""
    resource: str | None = None
    """The Kubernetes resource that is counted: `nvidia.com/gpu`."""
    per_host: int = 0
    """How many of the resource one pod asks for."""
    node_selector: dict[str, str] = field(default_factory=dict)
    tolerations: tuple[dict[str, str], ...] = ()
    topology: str | None = None
    """How the chips of a TPU slice are arranged."""

    def __str__(self) -> str:
        return self.name


CPU = Accelerator("cpu", Kind.CPU)


def toleration(resource: str) -> dict[str, str]:
    """What lets a pod onto the nodes that are kept free for a resource."""
    return {"key": resource, "operator": "Exists", "effect": "NoSchedule"}
