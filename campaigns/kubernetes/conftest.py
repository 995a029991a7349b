"""The suite for a real cluster: `make campaign NAME=kubernetes` runs it on the cluster of KUBECONFIG."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_home import Home
from campaigns.kubernetes.access import access, documented_role
from campaigns.kubernetes.cases import CASES
from campaigns.kubernetes.cluster import Cluster
from campaigns.kubernetes.recorder import recording
from ml_metrics.core.model import Workload

Results = dict[str, tuple[Workload, str]]
"""The outcome of the workload and the log of Airflow, by the name of the case."""


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if not os.environ.get("ML_METRICS_TEST_KUBERNETES"):
        pytest.skip("`make campaign NAME=kubernetes` runs this on the cluster of KUBECONFIG")
    home = Home.make(tmp_path_factory.mktemp("airflow"))
    with access(documented_role()) as granted, recording(granted.server, granted.authority) as requests:
        kubeconfig = Path(home.path / "kubeconfig")
        granted.write_kubeconfig(kubeconfig, requests.url)
        policy = home.path / "policy.yaml"
        policy.write_text(json.dumps({"host_paths": [str(home.runs)]}))
        extra = {"kube_config_path": str(kubeconfig), "namespace": granted.namespace}
        environment = {
            "AIRFLOW__ML_METRICS__CLUSTER": "kubernetes",
            "AIRFLOW__ML_METRICS__POLICY": str(policy),
            "AIRFLOW_CONN_KUBERNETES_DEFAULT": json.dumps({"conn_type": "kubernetes", "extra": extra}),
        }
        yield Cluster(home, granted, requests, environment)


@pytest.fixture(scope="session")
def results(cluster: Cluster) -> Results:
    """Run all cases one after the other: two commands at once that parse all DAGs interfere with each other."""
    for case in CASES:
        cluster.add_test(case.name, case.program, **case.content)
    plain = [case.name for case in CASES if not case.deferred]
    deferred = [case.name for case in CASES if case.deferred]
    return {
        **cluster.run_all(plain),
        **cluster.run_all(deferred, AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE="True"),
    }


@pytest.fixture(scope="session")
def hosts(cluster: Cluster) -> Workload:
    """The outcome of a workload on two hosts."""
    program = "import os, time; print('host', os.environ['JOB_COMPLETION_INDEX']); time.sleep(3)"
    return cluster.run(cluster.add_test("two-hosts", program, hosts=2))[0]
