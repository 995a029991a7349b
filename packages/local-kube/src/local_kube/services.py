"""Services, which lead nowhere here but give pods their names: every pod of this cluster lives at 127.0.0.1."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from local_kube.refusals import RefusalError

if TYPE_CHECKING:
    from local_kube.records import Document

LOOPBACK = "127.0.0.1"
NAME_GOES_ON = r"[A-Za-z0-9_-]"


def admitted(service: Document) -> Document:
    """A new Service. Only headless ones: there is no network in which another could have an address."""
    spec = {"type": "ClusterIP", "sessionAffinity": "None", **(service.get("spec") or {})}
    if spec["type"] != "ClusterIP" or spec.get("clusterIP") != "None":
        name = service["metadata"]["name"]
        raise RefusalError(
            422, f'Service "{name}" is invalid: spec.clusterIP: the local cluster has headless Services only: "None"'
        )
    return {**service, "spec": {**spec, "clusterIPs": ["None"]}, "status": {"loadBalancer": {}}}


def named_locally(text: str, subdomain: str, namespace: str) -> str:
    """A text with the names of a pod's neighbours replaced by the address at which they are.

    The name of a pod, `worker-0.workers` or longer, means something only in a cluster's DNS, which a process has not.
    So those below the pod's own subdomain are replaced.
    """
    tail = rf"{re.escape(subdomain)}(?:\.{re.escape(namespace)}(?:\.svc(?:\.cluster\.local)?)?)?"
    name = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
    return re.sub(rf"(?<![A-Za-z0-9_.-]){name}\.{tail}(?!\.?{NAME_GOES_ON})", LOOPBACK, text)
