"""The accelerator of a test, and the Kubernetes resources that its pods request."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Kind(StrEnum):
    """A family of accelerators."""

    CPU = "cpu"
    GPU = "gpu"
    TPU = "tpu"


@dataclass(frozen=True, slots=True)
class Accelerator:
    """An entry of the catalogue, or an accelerator that a test describes itself."""

    name: str
    """As in the name of the test: `cpu`, `h100x8`, `v5litepod-16`."""
    kind: Kind
    count: int = 0
    """Chips or GPUs of all hosts together."""
    hosts: int = 1
    """Number of pods, one for each host."""
    resource: str | None = None
    """The Kubernetes resource, like `nvidia.com/gpu`."""
    per_host: int = 0
    """How many of the resource each pod requests."""
    node_selector: dict[str, str] = field(default_factory=dict)
    tolerations: tuple[dict[str, str], ...] = ()
    topology: str | None = None
    """The topology of a TPU slice, like `4x4`."""

    def __str__(self) -> str:
        return self.name


CPU = Accelerator("cpu", Kind.CPU)


def toleration(resource: str) -> dict[str, str]:
    """Return the toleration for nodes that are reserved for a resource."""
    return {"key": resource, "operator": "Exists", "effect": "NoSchedule"}
