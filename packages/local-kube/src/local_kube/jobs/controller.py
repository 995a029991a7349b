"""The Job controller: it starts missing pods, counts those that end, and keeps each Job's status.

All of its state is on disk: the Jobs, their pods, and for each Job a ledger of the pods that ended. So the next
server continues where a killed one stopped, and a removed pod is still counted, once.
"""

from __future__ import annotations

import copy
import dataclasses
import logging
import secrets
import time
from datetime import datetime
from typing import TYPE_CHECKING

from local_kube.errors import ApiError
from local_kube.formats import now
from local_kube.jobs.view import COMPLETION_INDEX, EndedPod, JobView, has_ended, index_of, status_of
from local_kube.json_files import read_json, write_json
from local_kube.kinds import JOB
from local_kube.pods import admission, statuses

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from local_kube.json_files import Document
    from local_kube.pods.kubelet import Kubelet
    from local_kube.state.owner_references import GarbageCollector
    from local_kube.state.store import Objects, Store

MAX_WAIT_SECONDS = 0.5
"""How long to wait for a change at most, because deadlines and back-offs pass without one."""
INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
EVENT_REASONS = {"Complete": "Completed", "Failed": "", "Suspended": "Suspended"}
"""The conditions that become events, with the event's reason; if it is empty, the condition's reason is used."""
log = logging.getLogger(__name__)


class JobController:
    """Runs the Jobs of a cluster."""

    def __init__(
        self, store: Store, objects: Objects, kubelet: Kubelet, ledger: JobLedger, collector: GarbageCollector
    ) -> None:
        self._store = store
        self._objects = objects
        self._kubelet = kubelet
        self._ledger = ledger
        self._collector = collector
        kubelet.before_removal = self.count
        collector.removed = self._clean_up

    @property
    def active(self) -> int:
        """How many Jobs have neither ended nor been suspended."""
        return sum(not has_ended(job) and not job["spec"]["suspend"] for job in self._objects.all(JOB.singular))

    async def run(self) -> None:
        """Reconcile every Job after each change, until cancelled."""
        while True:
            for job in self._objects.all(JOB.singular):
                self.reconcile(job)
            self._collector.collect_or_postpone()
            await self._store.wait(MAX_WAIT_SECONDS)

    def reconcile(self, job: Document) -> None:
        """Do what is due for one Job."""
        try:
            if "deletionTimestamp" not in job["metadata"]:
                self._expire(job) if has_ended(job) else self._reconcile(job)
        except Exception as error:  # a full disk or an unexpected Job: the other Jobs go on
            expected = isinstance(error, (OSError, ApiError))
            log.warning("job %s: %s", job["metadata"]["name"], error, exc_info=not expected)
            self._store.record_event(job, "FailedCreate", f"Error creating: {error}", "Warning")

    def count(self, pod: Document) -> None:
        """Record a pod that has ended, or is about to be removed, in its Job's ledger, once."""
        job = self._job_of(pod)
        if job is None or pod["metadata"]["uid"] in self._ledger.ended_pods(job):
            return
        phase = pod["status"]["phase"]
        ended = EndedPod(phase if phase in statuses.FINAL_PHASES else "Failed", index_of(pod), time.time())
        self._ledger.add(job, pod["metadata"]["uid"], ended)

    def _clean_up(self, removed: Document) -> None:
        if removed["kind"] == JOB.kind:
            self._ledger.remove(removed)
            self._store.expire_events(removed)

    def _reconcile(self, job: Document) -> None:
        view = self._view(job)
        verdict = view.verdict()
        if verdict is not None:
            self._stop(job, view.pods)
        elif job["spec"]["suspend"]:
            self._drop(job, view.pods)
        else:
            self._drop(job, view.surplus_pods())
            for index in view.missing_pods():
                self._start(job, index)
        status = status_of(self._view(job), verdict, now())
        if status != job["status"]:
            self._record_conditions(job, status)
            changed = {**job, "metadata": {**job["metadata"]}, "status": status}
            self._store.publish(JOB.plural, "MODIFIED", changed)
            self._objects.save(changed)

    def _view(self, job: Document) -> JobView:
        pods = [pod for pod in self._store.pods.values() if _owner(pod) == job["metadata"]["uid"]]
        replace_deleted = job["spec"]["podReplacementPolicy"] == "TerminatingOrFailed"
        for pod in pods:
            if pod["status"]["phase"] in statuses.FINAL_PHASES or (
                replace_deleted and "deletionTimestamp" in pod["metadata"]
            ):
                self.count(pod)
        ended = self._ledger.ended_pods(job)
        left = [pod for pod in pods if pod["status"]["phase"] not in statuses.FINAL_PHASES]
        return JobView(job, dict(ended), left, time.time())

    def _start(self, job: Document, index: int | None) -> None:
        pod = admission.admit(pod_of(job, index), job["metadata"]["namespace"])
        self._store.add(pod)
        self._kubelet.add(pod)
        self._store.record_event(job, "SuccessfulCreate", f"Created pod: {pod['metadata']['name']}")

    def _drop(self, job: Document, pods: Sequence[Document]) -> None:
        """Stop pods that the Job does not need now; they count neither as succeeded nor as failed."""
        for pod in pods:
            if "deletionTimestamp" not in pod["metadata"]:
                self._ledger.add(job, pod["metadata"]["uid"], EndedPod("Dropped", index_of(pod), time.time()))
        self._stop(job, pods)

    def _stop(self, job: Document, pods: Sequence[Document]) -> None:
        for pod in pods:
            if "deletionTimestamp" not in pod["metadata"]:
                self._store.record_event(job, "SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}")
                self._kubelet.delete(pod, int(pod["spec"]["terminationGracePeriodSeconds"]))

    def _expire(self, job: Document) -> None:
        seconds = job["spec"].get("ttlSecondsAfterFinished")
        ended = max(entry["lastTransitionTime"] for entry in job["status"]["conditions"])
        if seconds is not None and time.time() >= datetime.fromisoformat(ended).timestamp() + seconds:
            self._collector.delete(JOB, job, "Background")

    def _record_conditions(self, job: Document, status: Document) -> None:
        """Record an event for each condition that is new."""
        before = {(entry["type"], entry["status"]) for entry in job["status"].get("conditions") or []}
        for entry in status.get("conditions") or []:
            if (entry["type"], entry["status"]) not in before and entry["type"] in EVENT_REASONS:
                reason = EVENT_REASONS[entry["type"]] if entry["status"] == "True" else "Resumed"
                kind = "Warning" if entry["type"] == "Failed" else "Normal"
                self._store.record_event(job, reason or entry["reason"], entry["message"], kind)

    def _job_of(self, pod: Document) -> Document | None:
        owner = _owner(pod)
        jobs = self._objects.all(JOB.singular) if owner else []
        return next((job for job in jobs if job["metadata"]["uid"] == owner), None)


def pod_of(job: Document, index: int | None) -> Document:
    """Return the next pod of a Job, as a client would send it."""
    metadata, template = job["metadata"], copy.deepcopy(job["spec"]["template"])
    spec = template["spec"]
    labels, annotations = dict(template["metadata"]["labels"]), dict(template["metadata"].get("annotations") or {})
    stem = metadata["name"]
    if index is not None:
        stem = f"{stem}-{index}"
        annotations[COMPLETION_INDEX] = labels[COMPLETION_INDEX] = str(index)
        spec.setdefault("hostname", stem)
        for container in [*(spec.get("initContainers") or []), *spec["containers"]]:
            variables = container.get("env") or []
            if not any(entry["name"] == INDEX_VARIABLE for entry in variables):
                container["env"] = [*variables, {"name": INDEX_VARIABLE, "value": str(index)}]
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
    """Return the uid of the Job that controls a pod."""
    for reference in pod["metadata"].get("ownerReferences") or []:
        if reference.get("kind") == JOB.kind and reference.get("controller"):
            return str(reference.get("uid"))
    return None


class JobLedger:
    """A file for each Job, removed with the Job."""

    def __init__(self, folder: Path, jobs: Iterable[Document]) -> None:
        self._folder = folder
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        uids = {str(job["metadata"]["uid"]) for job in jobs}
        self._ended = {uid: self._read(uid) for uid in uids}
        for file in self._folder.glob("*.json"):
            if file.stem not in uids:  # the server was killed while it removed the Job
                file.unlink()

    def ended_pods(self, job: Document) -> Mapping[str, EndedPod]:
        """Return the pods of a Job that have ended, by uid."""
        return self._ended.get(job["metadata"]["uid"], {})

    def add(self, job: Document, pod_uid: str, ended: EndedPod) -> None:
        """Record the end of a pod; raise OSError if it cannot be written."""
        uid = str(job["metadata"]["uid"])
        entries = {**self._ended.get(uid, {}), pod_uid: ended}
        write_json(self._file(uid), {pod: dataclasses.asdict(entry) for pod, entry in entries.items()})
        self._ended[uid] = entries

    def remove(self, job: Document) -> None:
        """Remove the record of a Job."""
        self._ended.pop(job["metadata"]["uid"], None)
        self._file(job["metadata"]["uid"]).unlink(missing_ok=True)

    def _read(self, uid: str) -> dict[str, EndedPod]:
        record = read_json(self._file(uid)) or {}
        return {pod: EndedPod(**entry) for pod, entry in record.items()}

    def _file(self, uid: str) -> Path:
        return self._folder / f"{uid}.json"
