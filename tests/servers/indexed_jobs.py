"""Indexed Jobs in front of a real cluster that is too old for them: its pods, its kubelet, a controller of our own.

Each is a real Job that runs nothing by itself. The pods of its hosts are made here, belong to it, and end with it.
"""

from __future__ import annotations

import json
import re
from threading import RLock
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

from kubernetes import client
from kubernetes.client.exceptions import ApiException

JOBS = re.compile(r"/apis/batch/v1/namespaces/(?P<namespace>[^/]+)/jobs(?:/(?P<name>[^/]+))?")
INDEX = "batch.kubernetes.io/job-completion-index"
WHOLE = "test/indexed-job"
"""The annotation with the Job as a client sent it."""
Document = dict[str, Any]


class IndexedJobs:
    """What the controller of a newer cluster does, for the fields that ML Metrics sets."""

    def __init__(self, api: client.ApiClient) -> None:
        self._api, self._lock = api, RLock()
        self._batch, self._core = client.BatchV1Api(api), client.CoreV1Api(api)
        self._hosts: dict[str, dict[str, str]] = {}
        """The names of the pods by index, by uid of the Job."""
        self._ends: dict[str, Document] = {}

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, bytes] | None:
        """Answer a request that is about an Indexed Job."""
        url = urlsplit(path)
        found = JOBS.fullmatch(url.path)
        if found is None:
            return None
        namespace, name = found.group("namespace", "name")
        try:
            if method == "POST":
                document = json.loads(body)
                made = document["spec"].get("completionMode") == "Indexed"
                return (201, _text(self.create(namespace, document))) if made else None
            if method != "GET":
                return None  # the cluster removes the pods with their Job
            if name:
                return 200, _text(self._seen(self._plain(self._batch.read_namespaced_job(name, namespace))))
            return 200, _text(self._list(namespace, parse_qs(url.query).get("labelSelector", [""])[0]))
        except ApiException as error:
            return error.status, (error.body or "{}").encode() if isinstance(error.body, str) else error.body or b"{}"

    def create(self, namespace: str, body: Document) -> Document:
        spec = {key: value for key, value in body["spec"].items() if key not in {"completionMode", "parallelism"}}
        annotations = {**(body["metadata"].get("annotations") or {}), WHOLE: json.dumps(body["spec"])}
        metadata = {**body["metadata"], "annotations": annotations}
        job = {**body, "metadata": metadata, "spec": {**spec, "parallelism": 0}}
        made = self._plain(self._batch.create_namespaced_job(namespace, job))
        with self._lock:
            self._hosts[made["metadata"]["uid"]] = {
                str(index): self._create_pod(made, body["spec"], str(index))
                for index in range(body["spec"]["completions"])
            }
        return self._seen(made)

    def _list(self, namespace: str, selector: str) -> Document:
        found = self._plain(self._batch.list_namespaced_job(namespace, label_selector=selector))
        return {**found, "items": [self._seen(one) for one in found["items"]]}

    # what a controller of JobSets calls

    def create_namespaced_job(self, namespace: str, body: Document) -> None:
        self.create(namespace, body)

    def list_namespaced_job(self, namespace: str, label_selector: str = "") -> Any:
        return self._api.deserialize(SimpleNamespace(data=_text(self._list(namespace, label_selector))), "V1JobList")

    def delete_namespaced_job(self, name: str, namespace: str, **options: Any) -> None:
        self._batch.delete_namespaced_job(name, namespace, **options)

    def _create_pod(self, job: Document, spec: Document, index: str) -> str:
        about, template = job["metadata"], spec["template"]
        name = f"{about['name']}-{index}-{about['uid'][:5]}"
        field = {"fieldRef": {"fieldPath": f"metadata.annotations['{INDEX}']"}}
        variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": field}
        of_pod = template["metadata"]
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": about["name"], "uid": about["uid"]}
        metadata = {
            "name": name,
            "labels": {**(of_pod.get("labels") or {}), "job-name": about["name"]},
            "annotations": {**(of_pod.get("annotations") or {}), INDEX: index},
            "ownerReferences": [owner],
        }
        containers = [{**one, "env": [variable, *one.get("env", [])]} for one in template["spec"]["containers"]]
        pod = {"metadata": metadata, "spec": {**template["spec"], "containers": containers,
                                              "hostname": f"{about['name']}-{index}"}}  # fmt: skip
        self._core.create_namespaced_pod(about["namespace"], pod)
        return name

    def _seen(self, job: Document) -> Document:
        """The Job as its client made it, with the status that its pods give it."""
        about, whole = job["metadata"], (job["metadata"].get("annotations") or {}).get(WHOLE)
        if whole is None:
            return job
        with self._lock:
            return {**job, "spec": {**job["spec"], **json.loads(whole)}, "status": self._status(about)}

    def _status(self, about: Document) -> Document:
        """A pod that is gone has failed, and with the first that fails, the others are removed."""
        hosts, end = self._hosts.get(about["uid"], {}), self._ends.get(about["uid"])
        pods = self._plain(
            self._core.list_namespaced_pod(about["namespace"], label_selector=f"job-name={about['name']}")
        )
        leaving = {one["metadata"]["name"] for one in pods["items"] if one["metadata"].get("deletionTimestamp")}
        phases = {one["metadata"]["name"]: one["status"].get("phase") for one in pods["items"]}
        each = [phases.get(name, "Failed") for name in hosts.values()]
        status = {
            "startTime": about["creationTimestamp"],
            "active": sum(one in {"Pending", "Running"} for one in each),
            "failed": each.count("Failed"),
            "succeeded": each.count("Succeeded"),
        }
        if end is None and "Failed" in each:
            end = {"type": "Failed", "reason": "BackoffLimitExceeded",
                   "message": "Job has reached the specified backoff limit"}  # fmt: skip
            for name in hosts.values():
                if phases.get(name) in {"Pending", "Running"} and name not in leaving:
                    self._core.delete_namespaced_pod(name, about["namespace"])
        elif end is None and each and set(each) == {"Succeeded"}:
            end = {"type": "Complete"}
        if end is not None:
            self._ends[about["uid"]] = end
            status["conditions"] = [{**end, "status": "True"}]
        return status

    def _plain(self, found: Any) -> Any:
        return self._api.sanitize_for_serialization(found)


def _text(document: Document) -> bytes:
    return json.dumps(document).encode()
