"""The base of the operators that run a workload, in one pod or on several hosts."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator

from ml_metrics.airflow_versions import AirflowFailException, AirflowTaskTimeout, TaskDeferred
from ml_metrics.config.clusters import cluster_of, namespace_of
from ml_metrics.config.longest import MAX_OUTAGE, longest_attempt
from ml_metrics.config.params import allowed_by_hand, check_given, check_program
from ml_metrics.config.trial import Usual
from ml_metrics.connections import check_places
from ml_metrics.errors import ConfigError, StorageError, UnreadableInputError
from ml_metrics.model import WORKLOAD_CONTAINER, JobStatus
from ml_metrics.operators.attempts import (
    TaskStoppedError,
    end_is_known,
    end_of,
    end_of_round,
    end_without_attempt,
    mark_attempt_created,
    message_of,
    retries_left,
    start_attempt,
    write_end,
)
from ml_metrics.operators.cluster import (
    MAX_OUTAGES,
    POLL_SECONDS,
    Settling,
    first_patience,
    is_outage,
    is_passing,
    place_of,
    wait_for_answer,
)
from ml_metrics.operators.cluster_hook import KUBECONFIG, CheckedHook, default_kubeconfig, kubeconfig_of
from ml_metrics.operators.leftovers import remove_recorded
from ml_metrics.operators.links import logs_command, workload_link
from ml_metrics.operators.patience import has_tries_left, retry_options
from ml_metrics.operators.pod_watch import PodWatch
from ml_metrics.operators.run_start import start_of
from ml_metrics.operators.saves_logs import SavesLogs
from ml_metrics.operators.stop_signal import ENDED_BY_HAND, EndsWithItsTask, WorkerStoppedError
from ml_metrics.operators.tasks import RUN_FOLDER, folder_of, run_of
from ml_metrics.operators.templates import FillsInTemplates
from ml_metrics.operators.waits_in_triggerer import WaitsInTriggerer
from ml_metrics.settings import Settings
from ml_metrics.storage_mark import mark_storage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from airflow.sdk import Context

    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.model import Workload
    from ml_metrics.run_folder import RunFolder

LOG_INTERVAL_SECONDS = 30
"""How often the log of a workload is read while the triggerer waits for it."""
RUN_KEY = "ml-metrics/run-key"
"""The label that identifies the objects of a run."""
CACHED_CLIENTS = ("hook", "client", "pod_manager", "job_client", "cluster_info", "cluster_hook")
"""The cached properties of the provider's operators that belong to one cluster."""


class WorkloadBase(SavesLogs, EndsWithItsTask, FillsInTemplates, WaitsInTriggerer, KubernetesPodOperator):
    """Runs the workload of a test, and records its outcome in `workload.json` however the task ends."""

    kind_of_object = "pod"

    def __init__(self, *, test: TestDefinition, **options: Any) -> None:
        self.max_duration = longest_attempt(test)
        own: dict[str, Any] = {
            **retry_options(test.retries),
            "execution_timeout": self.max_duration,
            "startup_timeout_seconds": int(test.startup_timeout.total_seconds()),
            "logging_interval": LOG_INTERVAL_SECONDS,
        }
        self.cluster = cluster_of(test)
        super().__init__(
            name=test.name,
            namespace=namespace_of(test),
            image=test.image,
            cmds=list(test.command),
            arguments=list(test.args),
            log_events_on_failure=True,
            log_pod_spec_on_failure=False,
            **{**own, **options},
        )
        self.reattach_on_restart = False  # this class finds the objects of a run again, not the provider
        self.test = test
        self.pending: Workload | None = None
        """The current attempt, as it was recorded when it started."""
        self.observed: Workload | None = None
        """The last known state of the workload in the cluster."""
        self.created = False
        """Whether the cluster has, or may have, accepted the workload."""
        self._unrecorded: RunFolder | None = None
        """The run folder, as long as the end of the workload is not recorded in it."""
        self._folder: RunFolder | None = None
        self._task_page = ""

    @cached_property
    def hook(self) -> Any:
        """The provider's hook, which connects with what was checked: a kubeconfig may name programs."""
        if self.on_gke:
            return super().hook
        return CheckedHook(
            conn_id=self.kubernetes_conn_id,
            in_cluster=self.in_cluster,
            config_file=self.config_file,
            cluster_context=self.cluster_context,
        )

    def convert_config_file_to_dict(self) -> None:
        """Give the triggerer the same kubeconfig, checked."""
        path = self.config_file or (default_kubeconfig() if KUBECONFIG in os.environ else None)
        self._config_dict = kubeconfig_of(path, None, self.cluster_context, "") if path else None

    @cached_property
    def pod_manager(self) -> PodWatch:
        """The provider's pod manager, extended."""
        return PodWatch(kube_client=self.client, callbacks=self.callbacks)

    def end_workload(self) -> None:
        """Remove the workload from the cluster."""
        KubernetesPodOperator.on_kill(self)

    def record_end_by_hand(self) -> None:
        """Record that somebody has ended the task."""
        if self._unrecorded is not None:
            self._record_end(self._unrecorded, TaskStoppedError(ENDED_BY_HAND))

    def write_identity(self, context: Context) -> None:
        """Write to the run folder which run it holds, so that the folder alone is enough to judge and load the run.

        Raises ConfigError if the other tasks would not find what this run writes: before its workload costs money.
        """
        check_places(settings := Settings.load())
        mark_storage(settings)
        run, folder = run_of(self.test.name, context), folder_of(self.test.name, context)
        params = dict(context["params"])
        identity = {**asdict(run), "test_file": self.test.model_dump(mode="json", exclude_unset=True), "params": params}
        folder.write("run", {**identity, **start_of(run, folder, context["dag_run"], params, self._usual())})
        self.check_by_hand(params)
        self.apply_overrides(params)
        context["ti"].xcom_push(key=RUN_FOLDER, value=folder.path)
        self.labels = {**self.labels, RUN_KEY: run.key}

    def apply_overrides(self, params: Mapping[str, Any]) -> None:
        """Use another image or command if the run was triggered with one. Raises ConfigError if it may not be used."""
        own, allowed = self.test.params, allowed_by_hand(self.test.by_hand, Settings.load().by_hand)
        check_program(params, own, allowed)
        check_given(params, own)
        given: dict[str, Any] = {name: params.get(name) for name in allowed if name not in own}
        self.image = given.get("image") or self.image
        if given.get("command"):
            self.cmds, self.arguments = list(given["command"]), []

    def _usual(self) -> Usual:
        """What a scheduled run would use; the templates of the test file are filled in by now."""
        defaults = {name: param.default for name, param in self.test.params.items()}
        return Usual(self.image, tuple(self.cmds), tuple(self.arguments), defaults)

    def use_template(self, template: dict[str, Any], context: Context) -> None:
        """Build the pod from a template, rendered with the parameters of the run.

        Image and argv are left out: the operator sets them and shows them in the UI.
        """
        first, *others = template["spec"]["containers"]
        first = {key: value for key, value in first.items() if key not in {"image", "command", "args"}}
        template = {**template, "spec": {**template["spec"], "containers": [first, *others]}}
        self.pod_template_dict = self.filled_in(template, context)
        # otherwise the provider overwrites the policy of the test with its own default
        containers = self.pod_template_dict["spec"]["containers"]
        workload = next(one for one in containers if one["name"] == WORKLOAD_CONTAINER)
        self.termination_message_policy = workload.get("terminationMessagePolicy", "File")

    def start_attempt(self, context: Context, namespace: str | None, name: str | None) -> None:
        """Record an attempt, counted once per process, and where its workload will run."""
        folder = folder_of(self.test.name, context)
        pending = self.pending or start_attempt(folder, context["ti"], self.image)
        self.pending = replace(pending, namespace=namespace, pod=name)
        folder.write_workload(self.pending)

    def workload_path(self, folder: RunFolder) -> str:
        """Return the folder that the workload of this attempt writes to."""
        return folder.workload_path((self.pending or folder.next_start()).generation)

    def mark_created(self, context: Context) -> None:
        """Record that the cluster has accepted the workload."""
        if self.pending is not None:
            mark_attempt_created(folder_of(self.test.name, context), self.pending)

    def already_ended(self, context: Context) -> bool:
        """Return whether an earlier process recorded the end of the workload, but died before Airflow knew it."""
        try:
            end = end_of_round(folder_of(self.test.name, context), context["ti"], self.test.retries)
        except (ConfigError, UnreadableInputError) as error:  # another try would find the same
            raise AirflowFailException(str(error)) from error
        if end is None:
            return False
        remove_recorded(self.test, context, folder_of(self.test.name, context), lambda _: type(self))
        if end.status is not JobStatus.SUCCESS:
            raise AirflowFailException(f"{end.failure_reason}: {end.detail}")
        self.log.info("the workload succeeded before the process died that waited for it")
        return True

    def take_over(self, context: Context) -> None:
        """Continue with the workload that an earlier process started."""
        self.pending, self.created = folder_of(self.test.name, context).read_workload(), True

    def use_cluster(self) -> None:
        """Make the provider's clients connect to the cluster of the test."""
        for client in CACHED_CLIENTS:
            self.__dict__.pop(client, None)
        if self.on_gke:
            return
        place = place_of(self.test)
        self.kubernetes_conn_id, self.namespace = place.connection, place.namespace or self.namespace
        self.cluster_context = place.context or self.cluster_context
        self.in_cluster = self.in_cluster if place.in_cluster is None else place.in_cluster
        if place.kubeconfig:
            self.config_file, self.in_cluster = place.kubeconfig, False

    def retry_after_outages(self, action: Callable[[], Any]) -> Any:
        """Call an action, and again after an outage of the API server. The action must find what it started before."""
        outages, settling = 0, Settling()
        while True:
            self.use_cluster()
            try:
                return action()
            except Exception as error:
                if settling.excuses(error):
                    self.log.warning("the API server refuses the request; trying again: %s", message_of(error))
                    time.sleep(POLL_SECONDS)
                    continue
                outages += 1
                if not is_outage(error) or outages > MAX_OUTAGES or not self.wait_until_reachable():
                    raise
                settling = Settling()
                self.log.warning("the API server is reachable again (%s); the log is read from the beginning", error)

    def query(self, request: Callable[[], Any]) -> Any:
        """Return the answer of the cluster, after an outage if necessary."""
        try:
            return request()
        except Exception as error:
            if not is_passing(error) or not self.wait_until_reachable():
                raise
            return request()

    def wait_until_reachable(self) -> bool:
        """Wait until the API server answers. Return False if that takes too long."""

        def request() -> None:
            self.use_cluster()
            self.client.list_namespaced_pod(self.own_namespace, limit=1)

        timeout = MAX_OUTAGE if self.created else first_patience()
        self.log.warning("the API server does not answer; waiting up to %s for it", timeout)
        return wait_for_answer(request, timeout)

    def observe(self) -> Workload | None:
        """Return the state of the workload in the cluster; None if it was never there."""
        raise NotImplementedError

    @property
    def on_gke(self) -> bool:
        """Whether the workload runs in a GKE cluster, with Google's operators."""
        return self.cluster is not None and self.cluster.on_gke

    @property
    def own_namespace(self) -> str:
        """The namespace of the workload."""
        recorded = self.pending.namespace if self.pending else None
        return recorded or self.namespace or self.hook.get_namespace() or self._incluster_namespace or "default"

    @contextmanager
    def recorded(self, context: Context) -> Iterator[None]:
        """Record the outcome in `workload.json` when the block ends, for whatever reason, unless the task defers."""
        folder = self._unrecorded = self._folder = folder_of(self.test.name, context)
        self._task_page, self._ti = context["ti"].log_url, context["ti"]
        self.due = context["dag_run"].start_date or context["dag_run"].run_after
        try:
            yield
        except WorkerStoppedError:
            raise TaskStoppedError("the worker is stopped; the next try takes over the workload") from None
        except BaseException as error:
            if isinstance(error, TaskDeferred) or (isinstance(error, StorageError) and has_tries_left(context["ti"])):
                raise  # an unavailable bucket shows nothing about the workload, which the next try takes over
            if self._unrecorded is not None and self._is_final(self._record_end(folder, error), error, folder):
                if isinstance(error, AirflowTaskTimeout) and self.observed is None:
                    self.end_by_hand()  # Airflow calls `on_kill` for AirflowTaskTimeout, but not for the next exception
                raise AirflowFailException(str(error)) from error
            raise
        if self._unrecorded is not None:
            self._record_end(folder, None)

    def record_observed(self) -> None:
        """Record the observed state already, since no later process could observe it if this one dies."""
        if self._unrecorded is not None and self.observed is not None and self.pending is not None:
            write_end(self._unrecorded, self._with_links(end_of(self.observed, None, self.pending, created=True)))

    def name_of_object(self, end: Workload) -> str | None:
        """Return the name of the pod or Job that runs the workload."""
        return end.pod

    def _record_end(self, folder: RunFolder, error: BaseException | None) -> Workload:
        self._unrecorded = None
        pending = self.pending or end_without_attempt(folder, self.image)
        end = end_of(self._last_observed(), error, pending, created=self.created)
        end = self._with_links(self.or_killed(end))
        write_end(folder, end)
        self.save_logs()
        return end

    def _last_observed(self) -> Workload | None:
        """Return what was observed; if that is nothing, try once more without waiting for an outage to end."""
        if self.observed is None and self.created:
            try:
                self.observed = self.observe()
            except Exception as error:
                if not is_passing(error):
                    raise
                self.log.warning("the end of the workload could not be read from the cluster: %s", error)
        return self.observed

    def _is_final(self, end: Workload, error: BaseException, folder: RunFolder) -> bool:
        """Return whether another try of the task would start the workload more often than `retries` allows."""
        final = isinstance(error, ConfigError)
        return final or (end_is_known(end) and not retries_left(folder, end, self.test.retries))

    def _with_links(self, end: Workload) -> Workload:
        page, cluster = self._task_page, self.cluster if self.on_gke else None
        link = workload_link(cluster, end.namespace, self.kind_of_object, self.name_of_object(end))
        return replace(end, logs_link=page, workload_link=link, logs_command=logs_command(cluster, end, page))
