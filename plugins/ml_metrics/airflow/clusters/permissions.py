"""The permissions of Airflow's account in a cluster: those that tests need, and those that planned faults need."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from ml_metrics.config.faults import BEYOND
from ml_metrics.core.errors import ConfigError
from ml_metrics.core.faults import EVICT, IN_POD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

REQUEST_SECONDS = 10
NOT_FOUND = 404


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
    *(Permission(verb, "pods") for verb in ("create", "delete", "get", "list")),
    Permission("get", "pods/log"),
    Permission("list", "events"),
    *(Permission(verb, "jobs", "batch", for_hosts=True) for verb in ("create", "delete", "get", "list")),
    *(Permission(verb, "services", for_hosts=True) for verb in ("create", "delete", "list", "patch")),
)


PERMISSIONS_OF_FAULTS = {
    Permission("get", "pods/exec"): IN_POD,
    Permission("create", "pods/exec"): IN_POD,
    Permission("create", "pods/eviction"): (EVICT,),
}
"""What only tests with planned faults need, and for which."""


@dataclass(frozen=True, slots=True)
class Access:
    """Asks a cluster, until a deadline."""

    api: Any
    namespace: str
    deadline: float

    def ask(self, request: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        left = self.deadline - time.monotonic()
        return request(*arguments, _request_timeout=max(0.1, min(REQUEST_SECONDS, left)), **options)

    def allowed(self, permission: Permission) -> bool:
        resource, _, subresource = permission.resource.partition("/")
        attributes = {
            "namespace": self.namespace,
            "verb": permission.verb,
            "group": permission.group,
            "resource": resource,
            **({"subresource": subresource} if subresource else {}),
        }
        review = client.AuthorizationV1Api(self.api).create_self_subject_access_review
        return bool(self.ask(review, {"spec": {"resourceAttributes": attributes}}).status.allowed)

    def refused_faults(self, *kinds: str) -> str:
        """Which of these faults the permissions do not allow, empty if none; without any, which of all."""
        refused = {
            one: [kind for kind in needs if not kinds or kind in kinds]
            for one, needs in PERMISSIONS_OF_FAULTS.items()
            if (not kinds or set(needs) & set(kinds)) and not self.allowed(one)
        }
        faults = dict.fromkeys(kind for of in refused.values() for kind in of)
        may_not = f"{', '.join(faults)}: may not {', '.join(map(str, refused))}" if refused else ""
        return may_not if kinds else "; ".join(filter(None, [may_not, BEYOND]))


def check_faults(api: Any, namespace: str, kinds: Iterable[str]) -> None:
    """Raise ConfigError for faults that the cluster would refuse in the middle of a run."""
    try:
        refused = Access(api, namespace, time.monotonic() + REQUEST_SECONDS).refused_faults(*kinds)
    except ApiException as error:
        if error.status != NOT_FOUND:
            raise
        return  # the cluster has no permissions
    if refused:
        raise ConfigError(f"Airflow cannot inflict the faults {refused} in {namespace} (docs/faults.md, `Permissions`)")
