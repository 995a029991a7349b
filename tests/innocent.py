"""A pod like those of a run of a test, but of another run of it: nothing that is done to the run may touch it."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from standalone_airflow import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

PROGRAM = """
for signal in HUP INT TERM CONT; do trap "echo got $signal" $signal; done
echo started
while :; do sleep 0.2; done
"""
RUN_KEY = "ml-metrics/run-key"
OF_ONE_RUN = {"nodeName", "hostname", "subdomain", "activeDeadlineSeconds"}


class Innocent:
    """The pod, from when a run has one until `problems` removes it."""

    def __init__(self, core: client.CoreV1Api, namespace: str, test: str, ended: Callable[[], bool]) -> None:
        self.core, self.namespace, self.test, self.uid = core, namespace, test, ""

        def pods() -> list[client.V1Pod]:
            return list(core.list_namespaced_pod(namespace, label_selector=f"ml-metrics/test={test}").items)

        wait_until(lambda: bool(pods()) or ended(), f"{test} has a pod")
        if found := pods():
            made = core.create_namespaced_pod(namespace, of_another_run(found[0], core.api_client))
            self.name, self.uid = made.metadata.name, made.metadata.uid

    def problems(self) -> list[str]:
        if not self.uid:
            return [f"{self.test}: no pod of another run was beside it"]
        try:
            pod = self.core.read_namespaced_pod(self.name, self.namespace)
            said = self.core.read_namespaced_pod_log(self.name, self.namespace, _preload_content=False).data.decode()
            self.core.delete_namespaced_pod(self.name, self.namespace, grace_period_seconds=0)
        except ApiException as error:
            return [f"{self.test}: the pod of another run: {error.reason}"]
        seen = (pod.metadata.uid, pod.status.phase, pod.metadata.deletion_timestamp, said.split())
        fine = (self.uid, "Running", None, ["started"])
        return [] if seen == fine else [f"{self.test}: the pod of another run: {seen} instead of {fine}"]


def of_another_run(pod: client.V1Pod, api: client.ApiClient) -> dict[str, Any]:
    made = copy.deepcopy(api.sanitize_for_serialization(pod))
    about, spec = made["metadata"], made["spec"]
    labels = {name: value for name, value in about["labels"].items() if "controller-uid" not in name}
    of_run = {
        name: f"{labels[name][:50]}-2"
        for name in labels
        if name == RUN_KEY or name.endswith(("job-name", "jobset-name"))
    }
    (base,) = (one for one in spec["containers"] if one["name"] == "base")
    container = {**base, "command": ["sh", "-c", PROGRAM], "args": []}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{about['name'][:58]}-2",
            "labels": {**labels, **of_run},
            "annotations": about.get("annotations") or {},
        },
        "spec": {
            **{name: value for name, value in spec.items() if name not in OF_ONE_RUN},
            "containers": [container],
        },
    }
