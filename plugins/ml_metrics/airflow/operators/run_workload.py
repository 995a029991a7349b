"""The operator that runs a workload in one pod."""

from __future__ import annotations

import re
import sys
import time
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowException
from kubernetes.client import ApiClient
from kubernetes.client.exceptions import ApiException

from ml_metrics.airflow.clusters.manifests import pod as pod_of
from ml_metrics.airflow.clusters.outcome import IMAGE_FAILURES, disruption, outcome_of, outcome_of_lost_pod
from ml_metrics.airflow.operators.attempts import TaskTimeoutError, end_is_known, is_missing
from ml_metrics.airflow.operators.cluster import is_outage, is_passing
from ml_metrics.airflow.operators.container_logs import known_secrets, logs_of, save_logs
from ml_metrics.airflow.operators.run import RUN_KEY, folder_of, run_of
from ml_metrics.airflow.operators.workload_base import ENDED_PHASES, WorkerStoppedError, WorkloadBase, check_policy
from ml_metrics.config.params import NODE, TRIAL, YES
from ml_metrics.core.model import WORKLOAD_CONTAINER, JobStatus
from ml_metrics.measure import ContainerLog, Role

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from airflow.sdk import Context
    from kubernetes.client import models as k8s

    from ml_metrics.core.model import Workload
    from ml_metrics.store.run_folder import RunFolder


HOSTNAME = "kubernetes.io/hostname"
"""The label with which every kubelet names its node."""
LABEL_VALUE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


def pinned_node(conf: Mapping[str, Any], params: Collection[str]) -> str:
    """The node of a run that was started for one; empty unless it is a trial. A name in `params` is the test's own."""
    node = conf.get(NODE)
    is_trial = TRIAL not in params and NODE not in params and conf.get(TRIAL) == YES
    return node if is_trial and isinstance(node, str) and LABEL_VALUE.fullmatch(node) else ""


def pin(pod: k8s.V1Pod, node: str) -> None:
    """Let a pod run on one node only, among those that its test allows."""
    if node:
        pod.spec.node_selector = {**(pod.spec.node_selector or {}), HOSTNAME: node}


NOT_FOUND, CONFLICT = 404, 409
ENDING = "ending"
"""The document about a pod that the cluster was ending when the triggerer took over."""


class RunWorkload(WorkloadBase):
    """Run the workload of a test in one pod."""

    _pod: dict[str, Any] | None = None
    """The pod when it was last observed."""

    def execute(self, context: Context) -> Any:
        if self.already_ended(context):
            return None
        with self.recorded(context):
            self.write_identity(context)
            return self.run_attempts(context, lambda: self._attempt(context))

    def _attempt(self, context: Context) -> Any:
        return self.retry_after_outages(lambda: super(RunWorkload, self).execute(context))

    def forget_attempt(self) -> None:
        super().forget_attempt()
        self._pod = None

    def trigger_reentry(self, context: Context, event: dict[str, Any]) -> Any:
        self.take_over(context)
        with self.recorded(context):
            if self.test.faults:
                self.write_identity(context)  # another attempt may follow
            return self.run_attempts(
                context, lambda: self._after_trigger(context, event), lambda: self._attempt(context)
            )

    def _after_trigger(self, context: Context, event: dict[str, Any]) -> Any:
        try:
            return self.retry_after_outages(lambda: super(RunWorkload, self).trigger_reentry(context, event))
        except AirflowException as error:
            if event.get("status") == "timeout":
                raise TaskTimeoutError(str(error)) from error
            succeeded = self.observed is not None and self.observed.status is JobStatus.SUCCESS
            if event.get("status") != "error" or not succeeded:
                raise
            # the triggerer failed, not the pod: some versions of the provider report outages like this
            self.log.warning("the workload succeeded although the triggerer failed: %s", error)
            return None

    def build_pod_request_obj(self, context: Context | None = None, **options: Any) -> k8s.V1Pod:
        """Return the pod that `ml-metrics render` prints, with the folder and the parameters of this run."""
        if context is not None:
            run, folder = run_of(self.test.name, context), folder_of(self.test.name, context)
            env = {"JOB_NAME": run.job_name}
            made = pod_of(self.test, run_dir=self.workload_path(folder), env=env, labels=self.labels)
            self.use_template(made, context)
        request = super().build_pod_request_obj(context, **options)
        if context is not None:
            pin(request, pinned_node(context["dag_run"].conf or {}, self.test.params))
        check_policy(self.test, request, request.metadata.namespace)
        return request

    def get_or_create_pod(self, pod_request_obj: k8s.V1Pod, context: Context) -> k8s.V1Pod:
        """Create the pod, or take over the pod of a worker that died, even if the pod has ended since.

        A pod that somebody has deleted meanwhile is not created again: its end is the deletion.
        """
        namespace, name = pod_request_obj.metadata.namespace, pod_request_obj.metadata.name
        folder = folder_of(self.test.name, context)
        pod = self.find_pod(namespace, context=context)
        if pod is not None and pod.metadata.deletion_timestamp is None:
            before = folder.read_workload()
            if before is None or before.pod != pod.metadata.name or not end_is_known(before):
                self.take_over(context)
                return pod
            self.process_pod_deletion(pod)  # the end of this pod is already recorded
        elif is_missing(folder, context["ti"]):
            self.take_over(context)
            raise AirflowException("the pod was deleted before its workload had ended")
        self.start_attempt(context, namespace, name)
        self.created = True  # from here on, a lost response may have been a success
        try:
            pod = super().get_or_create_pod(pod_request_obj, context)
        except ApiException as error:
            self.created = is_outage(error) or error.status == CONFLICT
            if error.status != CONFLICT:
                raise
            pod = pod_request_obj  # the provider retried, and the response to its first request was lost
        self.mark_created(context)
        return pod

    def cleanup(self, pod: k8s.V1Pod, remote_pod: k8s.V1Pod, *rest: Any, **options: Any) -> None:
        """Observe the pod before the provider deletes it."""
        error = sys.exc_info()[1]
        if self.created and (is_passing(error) or isinstance(error, WorkerStoppedError)):
            return  # the pod may be running: another try takes it over
        self.observed = self.as_planned(self.query(self.observe))
        self.record_observed()  # the pod is deleted next
        self.save_logs()
        deleted = self.observed is not None and self.observed.failure_reason == "PodDeleted"
        if deleted and error is not None:
            return  # the current exception is more precise than the one that the provider raises for a missing pod
        succeeded = self.observed is not None and self.observed.status is JobStatus.SUCCESS
        if succeeded and remote_pod:
            status = remote_pod.status  # if the pod has not ended, or reached a deadline, only sidecars are left
            if status.phase not in ENDED_PHASES or status.reason == "DeadlineExceeded":
                self.process_pod_deletion(remote_pod, reraise=False)
                return
        super().cleanup(pod, remote_pod, *rest, **options)

    def remove_objects(self) -> None:
        key = f"{RUN_KEY}={self.labels[RUN_KEY]}"
        for pod in self.client.list_namespaced_pod(self.own_namespace, label_selector=key).items:
            self.client.delete_namespaced_pod(pod.metadata.name, self.own_namespace)

    def observe(self) -> Workload | None:
        """Return the state of the workload from its pod, or from the events of a pod that no longer exists."""
        if not self.created or self.pending is None or self.pending.pod is None:
            return None
        name, namespace, plain = self.pending.pod, self.own_namespace, ApiClient().sanitize_for_serialization
        field_selector = f"involvedObject.kind=Pod,involvedObject.name={name}"
        events = plain(self.client.list_namespaced_event(namespace, field_selector=field_selector))["items"]
        try:
            self._pod = plain(self.client.read_namespaced_pod(name, namespace))
            return outcome_of(self._pod, events)
        except ApiException as error:
            if error.status != NOT_FOUND:
                raise
            self._pod = None
            last = plain(self.pod_manager.last) or self._seen_ending()
            return outcome_of_lost_pod(self.pending, events, last)

    def invoke_defer_method(self, last_log_time: Any = None, context: Context | None = None) -> Any:
        """Leave the pod to the triggerer. If the cluster is ending the pod, record why: soon nothing else shows it.

        As long as a planned fault needs this process, it waits here itself.
        """
        if context is not None and (event := self._end_before_last_fault()):
            return self._after_trigger(context, event)
        pod = ApiClient().sanitize_for_serialization(self.pod) or {}
        ending = disruption(pod.get("status") or {})
        if ending is not None and self._folder is not None:
            self._folder.write(ENDING, {"pod": (pod.get("metadata") or {}).get("name"), "status": pod["status"]})
        return super().invoke_defer_method(last_log_time=last_log_time, context=context)

    def _end_before_last_fault(self) -> dict[str, Any] | None:
        """Wait until no planned fault needs this process. Return what a trigger would say of a pod that ends before."""
        pod: Any = self.pod
        event = {"name": pod.metadata.name, "namespace": pod.metadata.namespace, "message": "the pod has ended"}
        queued = time.monotonic()
        while self.keeps_process:
            try:
                pod = self.pod_manager.read_pod(pod)
            except ApiException as error:
                if error.status != NOT_FOUND:
                    raise
                return {**event, "status": "failed", "message": "the pod was deleted before its workload had ended"}
            plain = ApiClient().sanitize_for_serialization(pod)
            found = outcome_of(plain, [])
            if found.ended_at is not None or pod.status.phase in ENDED_PHASES:
                return {**event, "status": "success" if found.status is JobStatus.SUCCESS else "failed"}
            late = time.monotonic() - queued > self.startup_timeout_seconds
            if pod.status.phase == "Pending" and (late or found.failure_reason in IMAGE_FAILURES):
                break  # the triggerer finds out why, and says it
            time.sleep(1)
        return None

    def _seen_ending(self) -> dict[str, Any] | None:
        """Return the pod as an earlier process saw it while the cluster ended it; None if none did."""
        document = self._folder.read(ENDING) if self._folder is not None else None
        same = document is not None and self.pending is not None and document.get("pod") == self.pending.pod
        return document if same else None

    def fetch_logs(self, folder: RunFolder, attempt: int) -> list[ContainerLog]:
        """Save the logs of the pod; if it no longer exists, that is what is recorded."""
        if self._pod is None and self.observed is None:
            self._last_observed()
        if self._pod is None:
            gone = "the pod was deleted before its logs could be read"
            return [ContainerLog(attempt, WORKLOAD_CONTAINER, Role.WORKLOAD, note=gone)]
        self.hidden = known_secrets([self._pod])
        name = str(self._pod["metadata"]["name"])
        return save_logs(folder, [(name, log) for log in logs_of(self._pod, attempt)], self.open_tail, self.hidden)
