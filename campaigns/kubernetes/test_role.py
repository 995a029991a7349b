"""The Role in the docs is sufficient, since the whole suite uses it, and has no superfluous permissions."""

from __future__ import annotations

import pytest
from kubernetes import client

from campaigns.kubernetes.access import documented_role, granted
from campaigns.kubernetes.cluster import Cluster
from ml_metrics.core.model import Workload

pytestmark = [pytest.mark.e2e]


OPTIONAL = {("watch", "events")}
"""The triggerer of the provider lists events if it is not allowed to watch them."""


def test_requests_use_exactly_the_granted_permissions(
    cluster: Cluster,
    results: dict[str, tuple[Workload, str]],
    hosts: Workload,
) -> None:
    assert results
    assert hosts
    assert cluster.requests.pairs - OPTIONAL == granted(documented_role())


@pytest.mark.parametrize(
    ("verb", "resource"), [("get", "secrets"), ("create", "pods/exec"), ("update", "pods"), ("create", "rolebindings")]
)
def test_other_permissions_are_denied(cluster: Cluster, verb: str, resource: str) -> None:
    name, _, sub = resource.partition("/")
    attributes = {
        "namespace": cluster.access.namespace,
        "verb": verb,
        "resource": name,
        "subresource": sub,
        "group": "rbac.authorization.k8s.io" if name == "rolebindings" else "",
    }
    account = f"system:serviceaccount:{cluster.access.namespace}:ml-metrics"
    review = {"spec": {"user": account, "resourceAttributes": attributes}}
    api = client.AuthorizationV1Api(cluster.access.admin)
    assert api.create_subject_access_review(review).status.allowed is False
