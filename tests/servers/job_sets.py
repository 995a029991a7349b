"""The API of JobSets and their controller, and of Kueue's Workloads, in front of a cluster that has only Jobs."""

from __future__ import annotations

import json
import re
import threading
import uuid
from base64 import b64decode
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import yaml
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from campaigns.kubernetes.recorder import recording

if TYPE_CHECKING:
    from collections.abc import Iterator

JOB_SETS = re.compile(r"/apis/jobset\.x-k8s\.io/v1alpha2/namespaces/(?P<namespace>[^/]+)/jobsets(?:/(?P<name>[^/]+))?")
WORKLOADS = re.compile(r"/apis/kueue\.x-k8s\.io/v1beta1/namespaces/[^/]+/workloads")
NAME, INDEX = "jobset.sigs.k8s.io/jobset-name", "jobset.sigs.k8s.io/job-index"
ATTEMPT = "jobset.sigs.k8s.io/restart-attempt"
Document = dict[str, Any]


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def condition(kind: str, reason: str, message: str, status: str = "True") -> Document:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": now()}


class JobSets:
    """The JobSets of a cluster, by name. What the real controller does is done for the fields that ML Metrics sets."""

    def __init__(self, jobs: Any, namespace: str = "default") -> None:
        self.objects: dict[str, Document] = {}
        self.created: list[Document] = []
        """Every JobSet as a client sent it."""
        self.workloads: list[Document] = []
        """Kueue's, which tests add."""
        self._jobs, self._namespace, self._lock = jobs, namespace, threading.RLock()

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, bytes] | None:
        """Answer a request about JobSets or Workloads."""
        path, _, query = path.partition("?")
        selector = parse_qs(query).get("labelSelector", [""])[0]
        if WORKLOADS.fullmatch(path):
            return 200, json.dumps({"items": self.workloads}).encode()
        found = JOB_SETS.fullmatch(path)
        if found is None:
            return None
        with self._lock:
            status, document = self._answer(method, found["name"], json.loads(body or b"{}"), selector)
        return status, json.dumps(document).encode()

    def suspend(self, name: str, *, value: bool) -> None:
        """Do what a queue does: admit a JobSet, or take its hosts away."""
        with self._lock:
            self.objects[name]["spec"]["suspend"] = value

    def reconcile(self) -> None:
        with self._lock:
            for name, one in list(self.objects.items()):
                self._reconcile(name, one)

    def _answer(self, method: str, name: str | None, body: Document, selector: str) -> tuple[int, Document]:
        if method == "POST":
            self.created.append(json.loads(json.dumps(body)))
            body["metadata"] |= {"uid": str(uuid.uuid4()), "creationTimestamp": now()}
            body["status"] = {"restarts": 0, "conditions": []}
            self.objects[body["metadata"]["name"]] = body
            return 201, body
        if name is None:
            wanted = dict(one.split("=") for one in selector.split(",") if one)
            found = [one for one in self.objects.values() if wanted.items() <= one["metadata"]["labels"].items()]
            return 200, {"items": found}
        if name not in self.objects:
            return 404, {"kind": "Status", "message": f'jobsets "{name}" not found'}
        if method == "DELETE":
            self.objects[name]["metadata"]["deletionTimestamp"] = now()
        return 200, self.objects[name]

    def _reconcile(self, name: str, one: Document) -> None:
        jobs = self._jobs.list_namespaced_job(self._namespace, label_selector=f"{NAME}={name}").items
        status, spec = one["status"], one["spec"]
        if one["metadata"].get("deletionTimestamp"):
            self._remove(jobs)
            del self.objects[name]
            return
        if any(entry["type"] in {"Completed", "Failed"} for entry in status["conditions"]):
            return
        if spec.get("suspend"):
            self._remove(jobs)
            return
        mine = [job for job in jobs if job.metadata.labels[ATTEMPT] == str(status["restarts"])]
        self._remove([job for job in jobs if job not in mine])
        (replicated,) = spec["replicatedJobs"]
        for index in {str(number) for number in range(replicated["replicas"])} - {
            job.metadata.labels[INDEX] for job in mine
        }:
            self._create(one, replicated, index)
        ends = [entry.type for job in mine for entry in job.status.conditions or [] if entry.status == "True"]
        complete, enough = ends.count("Complete"), spec["successPolicy"]["operator"] == "Any"
        if "Failed" in ends and status["restarts"] < spec["failurePolicy"]["maxRestarts"]:
            status["restarts"] += 1
        elif "Failed" in ends:
            status["conditions"].append(condition("Failed", "FailedJobs", "jobset failed due to one or more failures"))
            self._remove([job for job in mine if not job.status.failed])
        elif complete == replicated["replicas"] or (enough and complete):
            status["conditions"].append(condition("Completed", "AllJobsCompleted", "jobset completed successfully"))
            self._remove([job for job in mine if not job.status.succeeded])

    def _create(self, one: Document, replicated: Document, index: str) -> None:
        name, attempt = one["metadata"]["name"], str(one["status"]["restarts"])
        labels = {NAME: name, INDEX: index, ATTEMPT: attempt}
        body = json.loads(json.dumps(replicated["template"]))
        body["metadata"] = {"name": f"{name}-slice-{index}", "labels": {**body["metadata"]["labels"], **labels}}
        template = body["spec"]["template"]
        template["metadata"]["labels"] = {**template["metadata"]["labels"], **labels}
        template["spec"]["subdomain"] = name
        try:
            self._jobs.create_namespaced_job(self._namespace, body)
        except ApiException as error:
            if error.status != 409:  # the Job of the attempt before is not gone yet
                raise

    def _remove(self, jobs: list[Any]) -> None:
        for job in jobs:
            self._jobs.delete_namespaced_job(job.metadata.name, self._namespace, propagation_policy="Background")


@contextmanager
def controlled(served: JobSets) -> Iterator[None]:
    over = threading.Event()

    def control() -> None:
        while not over.wait(0.2):
            served.reconcile()

    thread = threading.Thread(target=control, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def job_sets(kubeconfig: str) -> Iterator[tuple[JobSets, Document]]:
    """Serve JobSets in front of a cluster. Yields them, and the kubeconfig of a cluster that has them."""
    content = yaml.safe_load(Path(kubeconfig).read_text())
    cluster = content["clusters"][0]["cluster"]
    served = JobSets(client.BatchV1Api(config.new_client_from_config(kubeconfig)))
    authority = b64decode(cluster["certificate-authority-data"]).decode()
    with recording(cluster["server"], authority, served.answer) as requests, controlled(served):
        yield served, {**content, "clusters": [{**content["clusters"][0], "cluster": {"server": requests.url}}]}
