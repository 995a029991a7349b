"""The permissions that Airflow needs in the namespace of the pods: the Role of docs/kubernetes.md, as data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Permission:
    """One verb on one resource."""

    verb: str
    resource: str
    """With its subresource, if any: `pods/log`."""
    group: str = ""
    for_hosts: bool = False
    """Whether only tests of several hosts need it."""

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}"


PERMISSIONS = (
    *(Permission(verb, "pods") for verb in ("create", "delete", "get", "list", "patch")),
    Permission("get", "pods/log"),
    Permission("list", "events"),
    *(Permission(verb, "jobs", "batch", for_hosts=True) for verb in ("create", "delete", "get", "list")),
    *(Permission(verb, "services", for_hosts=True) for verb in ("create", "delete", "list", "patch")),
)
