"""The scheduler and the kubelet: they place pods and run a task for each pod until it has ended."""

from __future__ import annotations

import asyncio
import copy
import logging
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from local_kube.formats import now
from local_kube.node import NODE_NAME
from local_kube.pods import scheduling, statuses
from local_kube.pods.container_runner import PodContext
from local_kube.pods.environment import References
from local_kube.pods.pod_runner import PodRunner

if TYPE_CHECKING:
    from collections.abc import Callable

    from local_kube.json_files import Document
    from local_kube.options import ServerOptions
    from local_kube.pods.container_runner import ContainerRunner
    from local_kube.state.store import Objects, Store

STEP_SECONDS = 0.1
FIRST_STEP_SECONDS, FIRST_STEPS = 0.02, 25
"""A new pod takes shorter steps at first, because a client is waiting for it to start."""
HOUSEKEEPING_SECONDS = 1
SHUTDOWN_SECONDS = 10
"""The longest grace period of a pod when the whole cluster stops."""
SHUTDOWN_MESSAGE = "Pod was terminated in response to imminent node shutdown."
PREEMPTED_MESSAGE = "default-scheduler: preempting to accommodate a higher priority pod"
ADDRESSES = {"hostIP": "127.0.0.1", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}
log = logging.getLogger(__name__)


class Kubelet:
    """Runs the pods of a store."""

    def __init__(self, store: Store, objects: Objects, options: ServerOptions) -> None:
        self._store = store
        self._objects = objects
        self._options = options
        self._runners: dict[str, PodRunner] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False
        self.before_removal: Callable[[Document], None] = lambda _: None
        """Called with each pod that is about to be removed; OSError postpones the removal."""

    def adopt(self) -> None:
        """Take over the pods that an earlier server left."""
        for pod in list(self._store.pods.values()):
            self._register(pod)
            if pod["spec"].get("nodeName"):
                self._start(pod)
        self._schedule()

    def add(self, pod: Document) -> None:
        """Run a new pod as soon as there is room."""
        self._register(pod)
        self._schedule()

    def container(self, pod: Document, name: str) -> ContainerRunner:
        """Return one of a pod's containers."""
        return self._runners[pod["metadata"]["uid"]].container(name)

    @property
    def active(self) -> int:
        """How many pods have not ended."""
        return sum(not runner.ended for runner in self._runners.values())

    def delete(self, pod: Document, grace_seconds: int) -> None:
        """Stop a pod and remove it once its containers have ended. A second call can only shorten the grace period."""
        metadata = pod["metadata"]
        earlier = metadata.get("deletionGracePeriodSeconds")
        if earlier is None or grace_seconds < earlier:
            moment = datetime.now(UTC) + timedelta(seconds=grace_seconds)
            metadata |= {
                "deletionTimestamp": moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
                "deletionGracePeriodSeconds": grace_seconds,
            }
            self._store.update(pod)
        if self._runners[metadata["uid"]].ended or not pod["spec"].get("nodeName"):
            self._remove(pod)

    def disrupt(self, pod: Document, reason: str, message: str, grace_seconds: int) -> None:
        """Delete a pod and record in its status that the cluster ended it."""
        statuses.add_disruption(pod["status"], reason, message, now())
        self.delete(pod, grace_seconds)

    async def housekeeping(self) -> None:
        """Retry, once a second, what a full disk prevented."""
        while True:
            await asyncio.sleep(HOUSEKEEPING_SECONDS)
            self._store.save_again()
            for runner in [runner for runner in self._runners.values() if runner.ended]:
                if "deletionTimestamp" in runner.pod["metadata"]:
                    self._remove(runner.pod)

    async def shut_down(self) -> None:
        """Stop every running pod and wait for the ends. Pods that wait for room keep waiting for the next server."""
        self._closing = True
        for runner in self._runners.values():
            if runner.pod["spec"].get("nodeName"):
                runner.fail("Terminated", SHUTDOWN_MESSAGE, SHUTDOWN_SECONDS)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=SHUTDOWN_SECONDS + 5)

    def _register(self, pod: Document) -> None:
        context = PodContext(
            self._store.folder(pod),
            self._options.image_folder,
            self._options.mount_variable_prefix,
            self._options.confinement,
            self._options.root,
            References(pod["metadata"]["namespace"], self._objects.find),
            partial(self._store.record_event, pod),
        )
        self._runners[pod["metadata"]["uid"]] = PodRunner(pod, context)

    def _start(self, pod: Document) -> None:
        task = asyncio.create_task(self._run(self._runners[pod["metadata"]["uid"]]))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, runner: PodRunner) -> None:
        steps = 0
        while not runner.ended:
            self._step(runner)
            steps += 1
            pause = FIRST_STEP_SECONDS if steps < FIRST_STEPS else STEP_SECONDS
            await asyncio.sleep(0 if runner.ended else pause)
        if "deletionTimestamp" in runner.pod["metadata"]:
            self._remove(runner.pod)
        self._schedule()

    def _remove(self, pod: Document) -> None:
        if pod["metadata"]["uid"] not in self._runners:
            return
        try:
            self.before_removal(pod)
        except OSError as error:  # a full disk: housekeeping tries again
            log.warning("pod %s cannot be counted: %s", pod["metadata"]["name"], error)
            return
        del self._runners[pod["metadata"]["uid"]]
        self._store.remove(pod)

    def _schedule(self) -> None:
        """Place every pod that fits: highest priority first, then oldest first."""
        if self._closing:
            return
        pods, node = list(self._store.pods.values()), self._options.node
        placed = [pod for pod in pods if pod["spec"].get("nodeName")]
        waiting = [pod for pod in pods if not pod["spec"].get("nodeName")]
        for pod in sorted(waiting, key=scheduling.priority, reverse=True):
            reason = scheduling.unschedulable_reason(pod, placed, node)
            if reason is None:
                self._place(pod)
                placed.append(pod)
            else:
                self._mark_unschedulable(pod, reason)
                for victim in scheduling.pods_to_preempt(pod, placed, node):
                    self._preempt(victim, pod)

    def _preempt(self, victim: Document, pod: Document) -> None:
        message = f"Preempted by pod {pod['metadata']['uid']} on node {NODE_NAME}"
        self._store.record_event(victim, "Preempted", message)
        grace = int(victim["spec"]["terminationGracePeriodSeconds"])
        self.disrupt(victim, "PreemptionByScheduler", PREEMPTED_MESSAGE, grace)

    def _place(self, pod: Document) -> None:
        pod["spec"]["nodeName"] = NODE_NAME
        pod["status"] |= {"startTime": now(), **ADDRESSES}
        pod["status"].pop("conditions", None)
        name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        self._store.record_event(pod, "Scheduled", f"Successfully assigned {name} to {NODE_NAME}")
        self._store.update(pod)
        self._start(pod)

    def _mark_unschedulable(self, pod: Document, message: str) -> None:
        before = pod["status"].get("conditions") or [{}]
        if before[0].get("message") != message:
            condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
            pod["status"]["conditions"] = [{**condition, "lastProbeTime": None, "lastTransitionTime": now()}]
            self._store.record_event(pod, "FailedScheduling", message, "Warning")
            self._store.update(pod)

    def _step(self, runner: PodRunner) -> None:
        before = copy.deepcopy((runner.pod["status"], runner.pod["metadata"].get("annotations")))
        try:
            runner.step()
        except Exception as error:  # a full disk or a removed folder: the next step may succeed
            log.warning("pod %s: %s", runner.pod["metadata"]["name"], error, exc_info=not isinstance(error, OSError))
            self._store.record_event(runner.pod, "FailedSync", f"error syncing pod: {error}", "Warning")
        if before != (runner.pod["status"], runner.pod["metadata"].get("annotations")):
            self._store.update(runner.pod)
