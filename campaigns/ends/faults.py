"""What befalls a deferred run: its own fault, and that of what all runs share."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from kubernetes import client

from local_kube.kubeconfig import read_address
from workload_ends import core

if TYPE_CHECKING:
    from random import Random

    from airflow_home import Home

WORK = """
import os, signal, sys, time
def stop(*_):
    time.sleep(3)
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
open(os.path.join(os.environ["MODEL_DIR"], "began-" + os.environ["POD_NAME"]), "w").close()
while not os.path.exists("{shared}/go-{round}"):
    time.sleep(0.1)
    if os.environ.get("JOB_COMPLETION_INDEX", "0") == "{breaks}" and os.path.exists("{shared}/break-{test}"):
        raise RuntimeError("{test} is hot")
"""
"""The workload ends with 0 after SIGTERM, which does not make the run a success."""


class Own(StrEnum):
    """The fault of one run."""

    NOTHING = "nothing"
    POD_DELETED = "a pod is deleted"
    DRAINED = "a node is drained"
    JOB_DELETED = "the Job is deleted"
    BREAKS = "the program fails"


class Shared(StrEnum):
    """What happens at the same time to what all runs share."""

    NOTHING = "nothing"
    HANGS = "the API server hangs"
    REFUSES = "the API server is killed"
    TRIGGERER = "the triggerer is killed"


@dataclass(frozen=True, slots=True)
class Case:
    """One run, and what befalls it."""

    round: int
    own: Own
    hosts: int
    shared: Shared

    @property
    def test(self) -> str:
        return f"r{self.round}-{self.own.name.lower().replace('_', '-')}-on-{self.hosts}"

    @property
    def reasons(self) -> frozenset[str | None]:
        """The truthful ends. Only a pod that is stopping shows that its node is drained, and no trigger reads that."""
        return frozenset(
            {
                Own.NOTHING: {None},
                Own.POD_DELETED: {"PodDeleted"},
                Own.DRAINED: {"Evicted", "PodDeleted"},
                Own.JOB_DELETED: {"JobDeleted"},
                Own.BREAKS: {"ExitCode:1"},
            }[self.own]
        )

    def add_to(self, home: Home) -> None:
        program = WORK.format(shared=home.shared, round=self.round, test=self.test, breaks=self.hosts - 1)
        home.add_test(
            self.test,
            command=["python3", "-c", program],
            hosts=self.hosts,
            timeout="20m",
            startup_timeout="10m",
        )

    def befall(self, home: Home, chance: Random) -> None:
        """Cause the fault of this run."""
        api, label = core(home), f"ml-metrics/test={self.test}"
        pods = sorted(pod.metadata.name for pod in api.list_namespaced_pod("default", label_selector=label).items)
        match self.own:
            case Own.POD_DELETED:
                api.delete_namespaced_pod(chance.choice(pods), "default", grace_period_seconds=1)
            case Own.DRAINED:
                name = chance.choice(pods)
                body = {"metadata": {"name": name, "namespace": "default"}}
                api.create_namespaced_pod_eviction(name, "default", body)
            case Own.JOB_DELETED:
                batch = client.BatchV1Api(api.api_client)
                (job,) = batch.list_namespaced_job("default", label_selector=label).items
                batch.delete_namespaced_job(job.metadata.name, "default", propagation_policy="Background")
            case Own.BREAKS:
                (home.shared / f"break-{self.test}").touch()


def take_away_the_server(home: Home, shared: Shared, seconds: float) -> None:
    """Let the API server hang, or kill it and start it again, for so many seconds. Pods go on without it."""
    address = read_address(home.cluster)
    assert address is not None
    os.kill(address.pid, signal.SIGSTOP if shared is Shared.HANGS else signal.SIGKILL)
    time.sleep(seconds)
    if shared is Shared.HANGS:
        os.kill(address.pid, signal.SIGCONT)
    home.local_cluster().ensure_running()
