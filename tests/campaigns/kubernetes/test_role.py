"""The Role that the docs print: enough, since the whole suite has no other; and not too much."""

from __future__ import annotations

import pytest
from kubernetes import client

from campaigns.kubernetes.access import documented_role, granted
from campaigns.kubernetes.cluster import Cluster
from ml_metrics.model import Workload

pytestmark = [pytest.mark.e2e]


DISPENSABLE = {("watch", "events")}
"""What the provider asks for and can do without: its triggerer lists events where it may not watch them."""


def test_everything_that_is_granted_is_asked_for_and_nothing_else(
    cluster: Cluster,
    told: dict[str, tuple[Workload, str]],
    hosts: Workload,
) -> None:
    assert told
    assert hosts
    assert cluster.asked.pairs - DISPENSABLE == granted(documented_role())


@pytest.mark.parametrize(
    ("verb", "resource"), [("get", "secrets"), ("create", "pods/exec"), ("update", "pods"), ("create", "rolebindings")]
)
def test_what_would_be_too_much_is_refused(cluster: Cluster, verb: str, resource: str) -> None:
    name, _, sub = resource.partition("/")
    asked = {
        "namespace": cluster.access.namespace,
        "verb": verb,
        "resource": name,
        "subresource": sub,
        "group": "rbac.authorization.k8s.io" if name == "rolebindings" else "",
    }
    account = f"system:serviceaccount:{cluster.access.namespace}:ml-metrics"
    review = {"spec": {"user": account, "resourceAttributes": asked}}
    api = client.AuthorizationV1Api(cluster.access.admin)
    assert api.create_subject_access_review(review).status.allowed is False
