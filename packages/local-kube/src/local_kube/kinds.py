"""The kinds of object that this cluster serves: what they are called, and where they are found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from local_kube.records import Document


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of object."""

    kind: str
    api_version: str = "v1"

    @property
    def one(self) -> str:
        """What one object is called in requests and messages."""
        return self.kind.lower()

    @property
    def many(self) -> str:
        """What several are called, as in a path."""
        return f"{self.one}s"

    @property
    def path(self) -> str:
        """The path of its group."""
        return f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"

    def list_of(self, items: list[Document]) -> Document:
        """Several objects as one."""
        return {"kind": f"{self.kind}List", "apiVersion": self.api_version, "metadata": {}, "items": items}


POD, EVENT, NODE, NAMESPACE = Kind("Pod"), Kind("Event"), Kind("Node"), Kind("Namespace")
SECRET, CONFIG_MAP, SERVICE = Kind("Secret"), Kind("ConfigMap"), Kind("Service")
JOB = Kind("Job", "batch/v1")
KEPT = (SECRET, CONFIG_MAP, SERVICE, JOB)
"""The kinds beside pods that clients may create."""
