"""What it means to run a workload, be it in one pod or on several hosts: found again, told truthfully, tried anew."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowTaskTimeout, TaskDeferred

from ml_metrics.errors import ConfigError
from ml_metrics.model import WORKLOAD_CONTAINER, JobStatus
from ml_metrics.operators.attempts import (
    LOST_WORKERS,
    attempt_is_created,
    end_of_round,
    retries_left,
    start_attempt,
)
from ml_metrics.operators.cluster import place_of
from ml_metrics.operators.links import logs_command, workload_link
from ml_metrics.operators.outage import LONGEST, MOST, SHORT, await_answer, is_outage
from ml_metrics.operators.pod_watch import PodWatch
from ml_metrics.operators.tasks import folder_of, run_of
from ml_metrics.operators.workload_end import EndedByHandError, end_of, is_known, unknown_end

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from airflow.sdk import Context

    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.model import Workload
    from ml_metrics.run_folder import RunFolder

GRACE = timedelta(minutes=5)
"""How much longer the task waits than the pod may run: the cluster ends the pod, Airflow only a cluster that hangs."""
LOG_INTERVAL = 30
"""Seconds between two looks at the log of a workload that is waited for by the triggerer."""
BY_HAND = ("image", "command")
"""What every test's form offers for one run, unless the test has parameters of these names itself."""
RUN_KEY = "ml-metrics/run-key"
"""The label by which the objects of a run are found again."""
CLIENTS = ("hook", "client", "pod_manager", "job_client", "cluster_info", "cluster_hook")
"""What the provider's operators keep of a cluster once they have reached it."""


class WorkloadRun(KubernetesPodOperator):
    """Run the workload of a test. `workload.json` says how it went, whatever happens to this process."""

    kind_of_object = "pod"

    def __init__(self, *, test: TestDefinition, **options: Any) -> None:
        # finding a node and starting the container may each take the startup timeout
        self.longest = 2 * test.startup_timeout + test.timeout + LONGEST + GRACE
        own: dict[str, Any] = {
            "retries": test.retries + LOST_WORKERS,
            "execution_timeout": self.longest,
            "startup_timeout_seconds": int(test.startup_timeout.total_seconds()),
            "logging_interval": LOG_INTERVAL,
        }
        super().__init__(
            name=test.name,
            namespace=test.namespace,
            image=test.image,
            cmds=list(test.command),
            arguments=list(test.args),
            log_events_on_failure=True,
            log_pod_spec_on_failure=False,
            **{**own, **options},
        )
        self.reattach_on_restart = False  # what is still there of a run is taken up here, not by the provider
        self.test = test
        self.begun: Workload | None = None
        self.seen: Workload | None = None
        self.created = False
        self.record_end: Callable[[BaseException | None], Workload] | None = None
        self.note_end: Callable[[], None] = lambda: None

    @cached_property
    def pod_manager(self) -> PodWatch:
        """The provider's watch over pods, and ours."""
        return PodWatch(kube_client=self.client, callbacks=self.callbacks)

    def on_kill(self) -> None:
        """Somebody ended the task by hand, or its time was up: the pod goes, and the run says so."""
        self.end_workload()
        if self.record_end is not None:
            self.record_end(EndedByHandError("the task was ended from outside"))

    def end_workload(self) -> None:
        """Take away what runs."""
        super().on_kill()

    def introduce(self, context: Context) -> None:
        """Say in the run folder which run this is, so that it can be judged and loaded with nothing but its folder."""
        run, folder = run_of(self.test.name, context), folder_of(self.test.name, context)
        identity = {"test": run.test, "dag_id": run.dag_id, "run_id": run.run_id, "deployment": run.deployment}
        params = dict(context["params"])
        test_file = self.test.model_dump(mode="json", exclude_unset=True)
        folder.write("run", {**identity, "test_file": test_file, "params": params})
        self.use_what_was_asked(params)
        context["ti"].xcom_push(key="run_folder", value=folder.path)
        self.labels = {**self.labels, RUN_KEY: run.key}

    def use_what_was_asked(self, params: Mapping[str, Any]) -> None:
        """Another image or command, if a person started this run with one."""
        asked: dict[str, Any] = {name: params.get(name) for name in BY_HAND if name not in self.test.params}
        self.image = asked.get("image") or self.image
        if asked.get("command"):
            self.cmds, self.arguments = list(asked["command"]), []

    def use_template(self, template: dict[str, Any], context: Context) -> None:
        """Build the pod from this, with parameters filled in."""
        self.pod_template_dict = self.render_template(template, context)
        # the provider would write its own default over what the test says
        workload = next(
            one for one in self.pod_template_dict["spec"]["containers"] if one["name"] == WORKLOAD_CONTAINER
        )
        self.termination_message_policy = workload.get("terminationMessagePolicy", "File")

    def start_attempt(self, context: Context, namespace: str | None, name: str | None) -> None:
        """Count an attempt, once for this process, and say where its workload will be found."""
        folder = folder_of(self.test.name, context)
        begun = self.begun or start_attempt(folder, context["ti"], self.image)
        self.begun = replace(begun, namespace=namespace, pod=name)
        folder.write_workload(self.begun)

    def is_created(self, context: Context) -> None:
        """The cluster has accepted it."""
        if self.begun is not None:
            attempt_is_created(folder_of(self.test.name, context), self.begun)

    def is_told_already(self, context: Context) -> bool:
        """Whether an earlier process had seen the end of the workload, and died before it could tell Airflow."""
        end = end_of_round(folder_of(self.test.name, context), context["ti"], self.test.retries)
        if end is None:
            return False
        if end.status is not JobStatus.SUCCESS:
            raise AirflowFailException(f"{end.failure_reason}: {end.detail}")
        self.log.info("the workload had ended well before the process died that waited for it")
        return True

    def take_up(self, context: Context) -> None:
        """Go on with what an earlier process had begun."""
        self.begun, self.created = folder_of(self.test.name, context).read_workload(), True

    def use_cluster(self) -> None:
        """Point the provider's clients at the cluster of the test."""
        for kept in CLIENTS:
            self.__dict__.pop(kept, None)
        if self.test.cluster is not None:
            return
        place = place_of(self.test)
        self.kubernetes_conn_id, self.namespace = place.connection, place.namespace or self.namespace
        if place.kubeconfig:
            self.config_file, self.in_cluster = place.kubeconfig, False

    def through_outages(self, action: Callable[[], Any]) -> Any:
        """Do it, and again after an outage of the API server: nothing that was started is started twice."""
        for outages in range(MOST + 1):
            self.use_cluster()
            try:
                return action()
            except Exception as error:
                if not is_outage(error) or outages == MOST or not self.is_back():
                    raise
                self.log.warning("the API server is back (%s); what it said is read again from the beginning", error)
        raise AssertionError  # the last round returns or raises

    def asked(self, question: Callable[[], Any]) -> Any:
        """The cluster's answer; after an outage, if need be."""
        try:
            return question()
        except Exception as error:
            if not is_outage(error) or not self.is_back():
                raise
            return question()

    def is_back(self) -> bool:
        """Wait until the API server answers; False if it does not for too long."""

        def ask() -> None:
            self.use_cluster()
            self.client.list_namespaced_pod(self.own_namespace, limit=1)

        longest = LONGEST if self.created else SHORT
        self.log.warning("the API server does not answer; waiting up to %s for it", longest)
        return await_answer(ask, longest)

    def look(self) -> Workload | None:
        """How the workload stands, as the cluster knows it now; None if the cluster never had it."""
        raise NotImplementedError

    @property
    def own_namespace(self) -> str:
        """The namespace in which the workload runs."""
        known = self.begun.namespace if self.begun else None
        return known or self.namespace or self.hook.get_namespace() or self._incluster_namespace or "default"

    @contextmanager
    def recorded(self, context: Context) -> Iterator[None]:
        """Write `workload.json` when the workload is done with, however that came about."""
        folder, page = folder_of(self.test.name, context), context["ti"].log_url

        def record_end(error: BaseException | None) -> Workload:
            self.record_end = None
            begun = self.begun or unknown_end(1, self.image)
            end = self._with_links(end_of(self._last_seen(), error, begun, created=self.created), page)
            folder.write_workload(end)
            return end

        def note_end() -> None:
            if self.seen is not None and self.begun is not None:
                folder.write_workload(self._with_links(end_of(self.seen, None, self.begun, created=True), page))

        self.record_end, self.note_end = record_end, note_end
        try:
            yield
        except TaskDeferred:
            raise
        except BaseException as error:
            if self.record_end is not None and self._is_final(record_end(error), error, folder):
                if isinstance(error, AirflowTaskTimeout) and self.seen is None:
                    self.on_kill()  # which Airflow would have called for this kind of error only
                raise AirflowFailException(str(error)) from error
            raise
        if self.record_end is not None:
            record_end(None)

    def _last_seen(self) -> Workload | None:
        """What was seen of the workload; looked for once more, without patience, where nothing was."""
        if self.seen is None and self.created:
            try:
                self.seen = self.look()
            except Exception as error:
                if not is_outage(error):
                    raise
                self.log.warning("the cluster does not tell how the workload ended: %s", error)
        return self.seen

    def _is_final(self, end: Workload, error: BaseException, folder: RunFolder) -> bool:
        """Whether another try of the task would be a workload that nobody asked for."""
        if isinstance(error, ConfigError):
            return True
        return is_known(end) and not retries_left(folder, end, self.test.retries)

    def _with_links(self, end: Workload, page: str) -> Workload:
        link = workload_link(self.test.cluster, end.namespace, self.kind_of_object, self.name_of_object(end))
        return replace(end, logs_link=page, workload_link=link, logs_command=logs_command(self.test.cluster, end, page))

    def name_of_object(self, end: Workload) -> str | None:
        """The name of what runs the workload."""
        return end.pod
