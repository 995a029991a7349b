"""What keeps every Job moving: it starts the pods that a Job lacks, counts those that end, and says how it went.

All that it knows is on disk: the Jobs, their pods, and for each Job a ledger of the pods that ended. So the next
server goes on where a killed one stopped, and a pod that is gone is still counted, once.
"""

from __future__ import annotations

import copy
import logging
import secrets
import time
from datetime import datetime
from typing import TYPE_CHECKING

from local_kube import admission, statuses
from local_kube.job_status import final, status_of
from local_kube.job_view import INDEX, Ended, JobView, index_of
from local_kube.kinds import JOB
from local_kube.records import now
from local_kube.refusals import RefusalError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from local_kube.garbage import Garbage
    from local_kube.job_ledger import JobLedger
    from local_kube.kubelet import Kubelet
    from local_kube.objects import Objects
    from local_kube.records import Document
    from local_kube.store import Store

LONGEST_WAIT = 0.5
"""Seconds after which Jobs are looked at although nothing happened: deadlines and back-offs pass by themselves."""
INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
TOLD = {"Complete": "Completed", "Failed": "", "Suspended": "Suspended"}
"""The conditions that become events, and their names there; without a name, the condition's reason."""
log = logging.getLogger(__name__)


class JobController:
    """Looks after the Jobs of a store."""

    def __init__(self, store: Store, objects: Objects, kubelet: Kubelet, ledger: JobLedger, garbage: Garbage) -> None:
        self._store = store
        self._objects = objects
        self._kubelet = kubelet
        self._ledger = ledger
        self._garbage = garbage
        kubelet.before_forgetting = self.count
        garbage.forgotten = self._forget

    @property
    def active(self) -> int:
        """How many Jobs are not over, and not waiting for somebody to resume them."""
        return sum(not final(job) and not job["spec"]["suspend"] for job in self._objects.all(JOB.one))

    async def look_after_all(self) -> None:
        """Go on for as long as the server lives."""
        while True:
            for job in self._objects.all(JOB.one):
                self.advance(job)
            self._garbage.sweep_or_try_again()
            await self._store.wait(LONGEST_WAIT)

    def advance(self, job: Document) -> None:
        """Do what can be done now for one Job."""
        try:
            if "deletionTimestamp" not in job["metadata"]:
                self._expire(job) if final(job) else self._go_on(job)
        except Exception as error:  # a full disk, or a Job that we do not understand: no other waits for it
            expected = isinstance(error, (OSError, RefusalError))
            log.warning("job %s: %s", job["metadata"]["name"], error, exc_info=not expected)
            self._store.tell(job, "FailedCreate", f"Error creating: {error}", "Warning")

    def count(self, pod: Document) -> None:
        """Enter a pod that is over, or about to be forgotten, in its Job's ledger. Once is enough."""
        job = self._job_of(pod)
        if job is None or pod["metadata"]["uid"] in self._ledger.of(job):
            return
        phase = pod["status"]["phase"]
        known = Ended(phase if phase in statuses.FINAL else "Failed", index_of(pod), time.time())
        self._ledger.enter(job, pod["metadata"]["uid"], known)

    def _forget(self, gone: Document) -> None:
        if gone["kind"] == JOB.kind:
            self._ledger.forget(gone)
            self._store.let_events_fade(gone)

    def _go_on(self, job: Document) -> None:
        view = self._view(job)
        verdict = view.verdict()
        if verdict is not None:
            self._stop(job, view.pods)
        elif job["spec"]["suspend"]:
            self._drop(job, view.pods)
        else:
            self._drop(job, view.surplus())
            for index in view.places():
                self._start(job, index)
        status = status_of(self._view(job), verdict, now())
        if status != job["status"]:
            self._tell_of_conditions(job, status)
            changed = {**job, "metadata": {**job["metadata"]}, "status": status}
            self._store.note(JOB.many, "MODIFIED", changed)
            self._objects.keep(changed)

    def _view(self, job: Document) -> JobView:
        mine = [pod for pod in self._store.pods.values() if _owner(pod) == job["metadata"]["uid"]]
        at_once = job["spec"]["podReplacementPolicy"] == "TerminatingOrFailed"
        for pod in mine:
            if pod["status"]["phase"] in statuses.FINAL or (at_once and "deletionTimestamp" in pod["metadata"]):
                self.count(pod)
        ended = self._ledger.of(job)
        living = [pod for pod in mine if pod["status"]["phase"] not in statuses.FINAL]
        return JobView(job, dict(ended), living, time.time())

    def _start(self, job: Document, index: int | None) -> None:
        pod = admission.admitted(pod_of(job, index), job["metadata"]["namespace"])
        self._store.add(pod)
        self._kubelet.take(pod)
        self._store.tell(job, "SuccessfulCreate", f"Created pod: {pod['metadata']['name']}")

    def _drop(self, job: Document, pods: Sequence[Document]) -> None:
        """End pods that the Job does not want now: they count neither as work done nor as failures."""
        for pod in pods:
            if "deletionTimestamp" not in pod["metadata"]:
                self._ledger.enter(job, pod["metadata"]["uid"], Ended("Dropped", index_of(pod), time.time()))
        self._stop(job, pods)

    def _stop(self, job: Document, pods: Sequence[Document]) -> None:
        for pod in pods:
            if "deletionTimestamp" not in pod["metadata"]:
                self._store.tell(job, "SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}")
                self._kubelet.delete(pod, int(pod["spec"]["terminationGracePeriodSeconds"]))

    def _expire(self, job: Document) -> None:
        seconds = job["spec"].get("ttlSecondsAfterFinished")
        ended = max(entry["lastTransitionTime"] for entry in job["status"]["conditions"])
        if seconds is not None and time.time() >= datetime.fromisoformat(ended).timestamp() + seconds:
            self._garbage.delete(JOB, job, "Background")

    def _tell_of_conditions(self, job: Document, status: Document) -> None:
        """Record an event for each condition that is new."""
        before = {(entry["type"], entry["status"]) for entry in job["status"].get("conditions") or []}
        for entry in status.get("conditions") or []:
            if (entry["type"], entry["status"]) not in before and entry["type"] in TOLD:
                reason = TOLD[entry["type"]] if entry["status"] == "True" else "Resumed"
                kind = "Warning" if entry["type"] == "Failed" else "Normal"
                self._store.tell(job, reason or entry["reason"], entry["message"], kind)

    def _job_of(self, pod: Document) -> Document | None:
        owner = _owner(pod)
        jobs = self._objects.all(JOB.one) if owner else []
        return next((job for job in jobs if job["metadata"]["uid"] == owner), None)


def pod_of(job: Document, index: int | None) -> Document:
    """The next pod of a Job, as a client would send it."""
    metadata, template = job["metadata"], copy.deepcopy(job["spec"]["template"])
    spec, mine = template["spec"], template["metadata"]
    labels, annotations = dict(mine["labels"]), dict(mine.get("annotations") or {})
    stem = metadata["name"]
    if index is not None:
        stem = f"{stem}-{index}"
        annotations[INDEX] = labels[INDEX] = str(index)
        spec.setdefault("hostname", stem)
        for container in [*(spec.get("initContainers") or []), *spec["containers"]]:
            known = container.get("env") or []
            if not any(entry["name"] == INDEX_VARIABLE for entry in known):
                container["env"] = [*known, {"name": INDEX_VARIABLE, "value": str(index)}]
    owner = {"apiVersion": JOB.api_version, "kind": JOB.kind, "name": metadata["name"], "uid": metadata["uid"]}
    return {
        "metadata": {
            "name": f"{stem}-{secrets.token_hex(3)[:5]}",
            "generateName": f"{stem}-",
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        },
        "spec": spec,
    }


def _owner(pod: Document) -> str | None:
    """The uid of the Job that a pod belongs to."""
    for reference in pod["metadata"].get("ownerReferences") or []:
        if reference.get("kind") == JOB.kind and reference.get("controller"):
            return str(reference.get("uid"))
    return None
