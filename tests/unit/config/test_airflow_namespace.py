"""No workload starts beside Airflow's own Secrets and service accounts, unless an administrator said so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_metrics.config import policy as airflow_namespace
from ml_metrics.config.loading import load_file
from ml_metrics.config.policy import PodRules, Policy, airflow_namespaces
from ml_metrics.config.problems import InvalidFileError
from ml_metrics.ui.cli import main

TEST = "name: t\nimage: registry/image:1\ncommand: [train]\n"
NAMES = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True)
WAYS: list[dict[str, Any]] = [
    {"serviceAccountName": "s"},
    {"serviceAccount": "s"},
    {"automountServiceAccountToken": True},
    {"automountServiceAccountToken": None},
    {},
    {"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}]},
    {"volumes": [{"name": "v", "secret": {"secretName": "s"}}]},
    {"volumes": [{"name": "v", "projected": {"sources": [{"configMap": {"name": "c"}}, {"secret": {"name": "s"}}]}}]},
    {"volumes": [{"name": "v", "csi": {"driver": "d", "nodePublishSecretRef": {"name": "s"}}}]},
    {"volumes": [{"name": "v", "azureFile": {"secretName": "s", "shareName": "n"}}]},
    {"volumes": [{"name": "v", "cephfs": {"monitors": [], "secretRef": {"name": "s"}}}]},
    {"imagePullSecrets": [{"name": "s"}]},
    *(
        {part: [{"name": "c", **use}]}
        for part in ("containers", "initContainers", "ephemeralContainers")
        for use in (
            {"envFrom": [{"secretRef": {"name": "s"}}]},
            {"env": [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]},
        )
    ),
]
"""Every way in which a pod gets a Secret or the token of a service account."""


@pytest.fixture
def in_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Airflow runs in a pod of the namespace `airflow`."""
    file = tmp_path / "namespace"
    file.write_text("airflow\n")
    monkeypatch.setattr(airflow_namespace, "OF_THIS_POD", file)
    monkeypatch.setenv("AIRFLOW__ML_METRICS__CLUSTER", "kubernetes")
    return file


def problems(tmp_path: Path, text: str, **policy: Any) -> list[str]:
    """Return what is wrong with a test, by its keys."""
    path = tmp_path / "t.yaml"
    path.write_text(TEST + text)
    try:
        load_file(path, tmp_path, Policy.model_validate(policy))
    except InvalidFileError as error:
        return [problem.path for problem in error.problems]
    return []


def test_outside_kubernetes_airflow_has_no_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    assert airflow_namespaces() == frozenset()
    monkeypatch.setenv("AIRFLOW__KUBERNETES_EXECUTOR__NAMESPACE", "default")
    assert airflow_namespaces() == frozenset(), "the default of an executor that is not used"


@pytest.mark.usefixtures("in_pod")
def test_the_namespaces_of_airflow_are_those_of_its_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    assert airflow_namespaces() == {"airflow"}
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "CeleryExecutor,KubernetesExecutor")
    assert airflow_namespaces() == {"airflow", "default"}
    monkeypatch.setenv("AIRFLOW__KUBERNETES_EXECUTOR__NAMESPACE", "workers")
    assert airflow_namespaces() == {"airflow", "workers"}
    monkeypatch.setenv("AIRFLOW__ML_METRICS__AIRFLOW_NAMESPACE", "here, there")
    assert airflow_namespaces() == {"here", "there"}


@pytest.mark.parametrize("spec", WAYS, ids=json.dumps)
@settings(max_examples=10)
@given(name=NAMES)
def test_beside_airflow_no_secret_and_no_account_is_in_reach_that_is_not_listed(
    spec: dict[str, Any], name: str
) -> None:
    """Whatever the way and the name: elsewhere the same pod is allowed, and here if the policy lists both names."""
    given_name = json.loads(json.dumps(spec).replace('"s"', json.dumps(name)))
    pod = {"spec": {"automountServiceAccountToken": False, **given_name} if spec else {}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__ML_METRICS__AIRFLOW_NAMESPACE", "airflow")

        def refused(namespace: str, **policy: Any) -> list[str]:
            rules = PodRules(Policy.model_validate(policy).in_namespace(namespace))
            return [what for _, what in rules.of_pod(pod)]

        assert len(refused("airflow")) == 1
        assert len(refused("airflow", namespaces=["airflow"])) == 1
        assert refused("airflow", namespaces=["*"], secrets=[name], service_accounts=[name, "default"]) == []
        assert refused("workloads") == []


@pytest.mark.usefixtures("in_pod")
@pytest.mark.parametrize(
    "text",
    [
        "secrets: {F: airflow-fernet-key/fernet-key}",
        "service_account: airflow-worker",
        "volumes: {/s: {secret: airflow-database}}",
        "image_pull_secrets: [airflow-registry]",
        "pod: {spec: {serviceAccountName: airflow-worker}}",
        "pod: {spec: {automountServiceAccountToken: true}}",
        "init_containers: [{name: i, image: i, envFrom: [{secretRef: {name: airflow-database}}]}]",
    ],
)
def test_a_test_file_reaches_nothing_of_airflow(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert problems(tmp_path, f"namespace: airflow\n{text}")[0] == "namespace"
    assert len(problems(tmp_path, f"namespace: airflow\n{text}", namespaces=["airflow"])) == 1
    monkeypatch.setenv("AIRFLOW__ML_METRICS__NAMESPACE", "airflow")
    assert len(problems(tmp_path, text)) == 2
    monkeypatch.setenv("AIRFLOW__ML_METRICS__NAMESPACE", "workloads")
    assert problems(tmp_path, text) == []


@pytest.mark.usefixtures("in_pod")
def test_the_sentence_names_the_setting_and_what_was_allowed_stays(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(f"{TEST}namespace: airflow\n")
    with pytest.raises(InvalidFileError, match=r"t\.yaml:4: namespace: .*'airflow'.*`\[ml_metrics\] namespace`"):
        load_file(tmp_path / "t.yaml", tmp_path)
    for allowed in ("airflow", "air*", "*"):
        assert problems(tmp_path, "namespace: airflow", namespaces=[allowed]) == []


def test_validate_reads_the_namespace_of_the_connection(
    in_pod: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without setting and connection, workloads would start where Airflow runs."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "t.yaml").write_text(TEST)
    extra: dict[str, Any] = {"in_cluster": True}
    for namespace, code in ((None, 1), ("airflow", 1), ("workloads", 0)):
        extra |= {"namespace": namespace} if namespace else {}
        connection = {"conn_type": "kubernetes", "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", json.dumps(connection))
        monkeypatch.setattr(
            "ml_metrics.airflow.operators.run_workload.RunWorkload._incluster_namespace", in_pod.read_text().strip()
        )
        assert main(["validate", str(tmp_path / "tests")]) == code, namespace
        assert ("Airflow's own namespace" in capsys.readouterr().out) is bool(code)
    monkeypatch.delenv("AIRFLOW_CONN_KUBERNETES_DEFAULT")
    monkeypatch.setenv("AIRFLOW__ML_METRICS__NAMESPACE", "workloads")
    assert main(["validate", str(tmp_path / "tests")]) == 0
