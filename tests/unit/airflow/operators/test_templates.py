"""What reaches a pod from a test file and from whoever triggers a run, through the real operators."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from airflow.sdk import DAG

from ml_metrics import ConfigError, TestDefinition
from ml_metrics.airflow.operators.run_workload import RunWorkload
from ml_metrics.store.run_folder import RunFolder

TEST: dict[str, Any] = {
    "name": "t",
    "image": "registry/image:{{ params.tag }}",
    "command": ["train", "--run={{ run_id }}"],
    "params": {"tag": "v1"},
    "by_hand": ["image", "command"],
}
SERVER = {
    "current-context": "c",
    "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    "users": [{"name": "u", "user": {"token": "t"}}],
}
HOSTS = [1, 2]


class Secrets:
    """What stands for the connections in Airflow's context."""

    def __getattr__(self, name: str) -> Secrets:
        if name.startswith("_"):
            raise AttributeError(name)
        return self

    def __str__(self) -> str:
        return "canary"


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(SERVER))
    path.chmod(0o600)
    return path


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__STORAGE_ROOT", str(tmp_path / "runs"))
    ti = SimpleNamespace(
        dag_id="t",
        task_id="run_workload",
        run_id="manual__1",
        run_type="manual",
        triggering_user_name="alice",
        try_number=1,
        max_tries=0,
        map_index=-1,
        conf=None,
        start_date=datetime.now(UTC),
        xcom_push=lambda key, value: pushed.update({key: value}),
    )
    pushed: dict[str, Any] = {}
    return {
        "ti": ti,
        "dag": DAG("t", schedule=None),
        "dag_run": ti,
        "run_id": ti.run_id,
        "params": {"tag": "v7"},
        "conn": Secrets(),
        "pushed": pushed,
    }


def made(hosts: int, context: dict[str, Any], kubeconfig: Path, **content: Any) -> Any:
    """The pod, or the template of the Job's pods, as the cluster gets it."""
    test = TestDefinition.model_validate({**TEST, "hosts": hosts, **content})
    operator: Any = RunWorkload(task_id="run_workload", test=test)
    operator.render_template_fields(context)
    operator.write_identity(context)
    operator.in_cluster, operator.kubernetes_conn_id, operator.config_file = False, None, str(kubeconfig)
    found = operator.request(context, "t-1")
    return found["spec"]["template"] if hosts > 1 else found


def use_policy(path: Path, monkeypatch: pytest.MonkeyPatch, **content: Any) -> None:
    path.write_text(json.dumps(content))
    monkeypatch.setenv("AIRFLOW__ML_METRICS__POLICY", str(path))


@pytest.mark.parametrize("hosts", HOSTS)
def test_values_of_a_run_are_filled_in_once(hosts: int, context: Any, kubeconfig: Path) -> None:
    context["params"] = {"tag": "{{ conn.x.password }}"}
    pod = made(hosts, context, kubeconfig, env={"TAG": "{{ params.tag }}", "ARRAY": "${#a[@]}"})
    (container,) = pod["spec"]["containers"]
    assert container["image"] == "registry/image:{{ conn.x.password }}", "a value is no template"
    assert container["command"] == ["train", "--run=manual__1"]
    values = {one["name"]: one.get("value") for one in container["env"]}
    assert (values["TAG"], values["ARRAY"]) == ("{{ conn.x.password }}", "${#a[@]}")


@pytest.mark.parametrize("hosts", HOSTS)
@pytest.mark.parametrize(
    "content",
    [
        {"image": "{{ conn.smtp_default.password }}"},
        {"args": ["{{ conn.smtp_default.password }}"]},
        {"env": {"X": "{{ conn.smtp_default.password }}"}},
        {"annotations": {"x": "{{ conn.smtp_default.password }}"}},
        {"volumes": {"/d": {"claim": "{{ conn.smtp_default.password }}"}}},
        {"service_account": "{{ conn.smtp_default.password }}"},
        {"init_containers": [{"name": "i", "image": "i", "args": ["{{ conn.smtp_default.password }}"]}]},
        {"pod": {"spec": {"hostname": "{{ conn.smtp_default.password }}"}}},
    ],
)
def test_a_connection_reaches_no_pod(  # noqa: PLR0917  (what a run consists of)
    hosts: int, content: dict[str, Any], context: Any, kubeconfig: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="does not know 'conn'") as error:
        made(hosts, context, kubeconfig, **content)
    assert "canary" not in str(error.value)
    use_policy(tmp_path / "policy", monkeypatch, airflow_templates=True)
    assert "canary" in str(made(hosts, context, kubeconfig, **content)), "an administrator can allow it"


def test_nothing_else_is_a_template_of_airflow() -> None:
    from ml_metrics.airflow.operators.gke import RunWorkloadOnGke

    place = {"cluster": {"project": "p", "location": "l", "name": "n"}}
    for kind, more in ((RunWorkload, {}), (RunWorkloadOnGke, place)):
        operator: Any = kind(task_id="run_workload", test=TestDefinition.model_validate({**TEST, **more}))
        assert operator.template_fields == ("image", "cmds", "arguments")
        assert tuple(operator.template_ext) == (), "no argument is read as the name of a file"


@pytest.mark.parametrize("hosts", HOSTS)
@pytest.mark.parametrize(
    ("content", "params", "policy", "what"),
    [
        ({}, {"tag": "v", "image": "evil/x"}, {"images": ["registry/*"]}, r"spec.containers\[0\].image: 'evil/x'"),
        ({"image": "{{ params.tag }}"}, {"tag": "evil"}, {"images": ["v*"]}, "'evil' is not in `images`"),
        (
            {"volumes": {"/d": {"host_path": "/mnt/{{ params.tag }}"}}},
            {"tag": "../etc"},
            {"host_paths": ["/mnt/*"]},
            "the folder '/mnt/../etc'",
        ),
        ({"service_account": "{{ params.tag }}"}, {"tag": "admin"}, {"service_accounts": ["v*"]}, "'admin'"),
        ({"pod": {"spec": {"hostNetwork": True}}}, {}, {}, "pod.spec.hostNetwork"),
        ({"namespace": "kube-system"}, {}, {}, "namespace: 'kube-system'"),
        ({"sender": "ceo@victim.org"}, {}, {"senders": []}, "sender: 'ceo@victim.org'"),
        ({}, {"image": "x"}, {"by_hand": ["command"]}, "`image` cannot be stated"),
        ({}, {"command": ["x"]}, {"by_hand": []}, "`command` cannot be stated"),
        ({}, {"tag": "v2"}, {"by_hand": []}, "the parameter 'tag' cannot be changed"),
        ({}, {"notify": "ceo@victim.org"}, {"recipients": ["*@good.org"]}, "'ceo@victim.org' is not in `recipients`"),
    ],
)
def test_the_whole_pod_is_checked_before_the_cluster_gets_it(  # noqa: PLR0917  (what a run consists of)
    hosts: int,
    content: dict[str, Any],
    params: dict[str, Any],
    policy: dict[str, Any],
    what: str,
    context: Any,
    kubeconfig: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use_policy(tmp_path / "policy", monkeypatch, **policy)
    context["params"] = {"tag": "v1", **params}
    with pytest.raises(ConfigError, match=f"refuses this (pod|run).*{what}"):
        made(hosts, context, kubeconfig, **content)


@pytest.mark.parametrize("hosts", HOSTS)
def test_no_pod_starts_beside_airflow_unless_the_policy_says_so(
    hosts: int, context: Any, kubeconfig: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The namespace is that of the connection, which is known in a run alone."""
    assert made(hosts, context, kubeconfig)["spec"]["automountServiceAccountToken"] is False
    monkeypatch.setenv("AIRFLOW__ML_METRICS__AIRFLOW_NAMESPACE", "default")
    assert made(hosts, context, kubeconfig), "Airflow has no namespace on the local cluster"
    monkeypatch.setenv("AIRFLOW__ML_METRICS__CLUSTER", "kubernetes")
    with pytest.raises(ConfigError, match=r"namespace: .*'default'.*`\[ml_metrics\] namespace`"):
        made(hosts, context, kubeconfig)
    use_policy(tmp_path / "policy", monkeypatch, namespaces=["default"])
    assert made(hosts, context, kubeconfig)
    context["params"] = {"tag": "airflow-worker"}
    with pytest.raises(ConfigError, match="'airflow-worker' is not in `service_accounts`"):
        made(hosts, context, kubeconfig, service_account="{{ params.tag }}")
    with pytest.raises(ConfigError, match="'airflow-worker' is not in `secrets`"):
        made(hosts, context, kubeconfig, volumes={"/s": {"secret": "{{ params.tag }}"}})
    monkeypatch.delenv("AIRFLOW__ML_METRICS__POLICY")
    monkeypatch.setenv("AIRFLOW__ML_METRICS__NAMESPACE", "workloads")
    assert made(hosts, context, kubeconfig, service_account="{{ params.tag }}")


@pytest.mark.parametrize("hosts", HOSTS)
def test_an_example_does_not_reach_a_real_cluster(
    hosts: int, context: Any, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert made(hosts, context, kubeconfig, image="gcr.io/your-project/digits:latest"), "processes of this machine"
    monkeypatch.setenv("AIRFLOW__ML_METRICS__CLUSTER", "kubernetes")
    with pytest.raises(ConfigError, match=r"t: the image gcr\.io/your-project/digits:latest is an example's: name one"):
        made(hosts, context, kubeconfig, image="gcr.io/your-project/digits:latest")
    assert made(hosts, context, kubeconfig, image="gcr.io/my-project/digits:latest")


def test_a_refused_recipient_is_not_recorded(
    context: Any, kubeconfig: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_policy(tmp_path / "policy", monkeypatch, recipients=["*@good.org"])
    context["params"] = {"tag": "v1", "notify": "a@good.org, ceo@victim.org"}
    with pytest.raises(ConfigError):
        made(1, context, kubeconfig)
    folder = next((tmp_path / "runs" / "t").glob("*"))
    document = RunFolder(str(folder)).read("run")
    assert document is not None
    assert document["notify"] == ["a@good.org"]
