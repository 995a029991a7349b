"""The one node of the cluster: this machine, and what it offers to pods."""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

NODE_NAME = "local"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
DEFAULT_MAX_PODS = 110


@dataclass(frozen=True, slots=True)
class Node:
    """What the machine offers. CPU and memory are unlimited unless `resources` names them."""

    max_pods: int = DEFAULT_MAX_PODS
    """How many pods run at once; others wait."""
    resources: Mapping[str, float] = field(default_factory=dict)
    """Amounts of `cpu`, `memory` and devices. There are none of a device that is not named."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels for node selectors, in addition to the standard ones."""

    @property
    def all_labels(self) -> dict[str, str]:
        """The labels that a node selector can match."""
        standard = {
            "kubernetes.io/hostname": NODE_NAME,
            "kubernetes.io/os": sys.platform,
            "kubernetes.io/arch": architecture(),
        }
        return {**standard, **self.labels}


def architecture() -> str:
    """Return the machine's architecture by its Kubernetes name."""
    machine = platform.machine()
    return ARCHITECTURES.get(machine, machine)
