from __future__ import annotations

from campaigns.kubernetes.access import documented_role
from ml_metrics.airflow.clusters.permissions import PERMISSIONS


def test_they_are_those_of_the_documented_role() -> None:
    role = {
        (group, resource, verb)
        for rule in documented_role()["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert sorted((one.group, one.resource, one.verb) for one in PERMISSIONS) == sorted(role)
