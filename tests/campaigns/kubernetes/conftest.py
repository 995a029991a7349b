"""The suite for a real cluster: `make test-kubernetes` runs it against the cluster that KUBECONFIG names."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_home import Home
from campaigns.kubernetes.access import access, documented_role
from campaigns.kubernetes.cluster import Cluster
from campaigns.kubernetes.recorder import recording
from campaigns.kubernetes.stories import STORIES
from ml_metrics.model import Workload

Told = dict[str, tuple[Workload, str]]
"""By a story's name: how its workload went, and what Airflow said."""


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if not os.environ.get("ML_METRICS_TEST_KUBERNETES"):
        pytest.skip("`make test-kubernetes` runs this against the cluster that KUBECONFIG names")
    home = Home.make(tmp_path_factory.mktemp("airflow"))
    with access(documented_role()) as granted, recording(granted.server, granted.authority) as asked:
        kubeconfig = Path(home.path / "kubeconfig")
        granted.write_kubeconfig(kubeconfig, asked.url)
        extra = {"kube_config_path": str(kubeconfig), "namespace": granted.namespace}
        environment = {
            "AIRFLOW__ML_METRICS__CLUSTER": "kubernetes",
            "AIRFLOW_CONN_KUBERNETES_DEFAULT": json.dumps({"conn_type": "kubernetes", "extra": extra}),
        }
        yield Cluster(home, granted, asked, environment)


@pytest.fixture(scope="session")
def told(cluster: Cluster) -> Told:
    """Every story, one after the other: two commands that read all DAGs at once get into each other's way."""
    for story in STORIES:
        cluster.add_test(story.name, story.program, **story.content)
    plain = [story.name for story in STORIES if not story.deferred]
    deferred = [story.name for story in STORIES if story.deferred]
    return {
        **cluster.run_all(plain),
        **cluster.run_all(deferred, AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE="True"),
    }


@pytest.fixture(scope="session")
def hosts(cluster: Cluster) -> Workload:
    """A workload of two hosts."""
    program = "import os, time; print('host', os.environ['JOB_COMPLETION_INDEX']); time.sleep(3)"
    return cluster.run(cluster.add_test("two-hosts", program, hosts=2))[0]
