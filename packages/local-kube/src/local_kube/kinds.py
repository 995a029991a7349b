"""The kinds of object that the cluster serves, their names and their paths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from local_kube.json_files import Document


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of object."""

    kind: str
    api_version: str = "v1"

    @property
    def singular(self) -> str:
        """The name of one object in requests and messages."""
        return self.kind.lower()

    @property
    def plural(self) -> str:
        """The name of several objects, as in a path."""
        return f"{self.singular}s"

    @property
    def path(self) -> str:
        """The path of the kind's API group."""
        return f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"

    def list_of(self, items: list[Document]) -> Document:
        """Return a list object."""
        return {"kind": f"{self.kind}List", "apiVersion": self.api_version, "metadata": {}, "items": items}


POD, EVENT, NODE, NAMESPACE = Kind("Pod"), Kind("Event"), Kind("Node"), Kind("Namespace")
SECRET, CONFIG_MAP, SERVICE = Kind("Secret"), Kind("ConfigMap"), Kind("Service")
JOB = Kind("Job", "batch/v1")
STORED_KINDS = (SECRET, CONFIG_MAP, SERVICE, JOB)
"""The kinds other than pods that clients can create."""
