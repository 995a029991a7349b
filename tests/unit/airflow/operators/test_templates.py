"""What reaches a pod from a test file and from whoever triggers a run, through the real operators."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ml_metrics import ConfigError, TestDefinition
from ml_metrics.airflow.operators.run_workload import RunWorkload
from ml_metrics.store.run_folder import RunFolder
from unit.airflow.operators.running import context_of, prepared

TEST: dict[str, Any] = {
    "name": "t",
    "image": "registry/image:{{ params.tag }}",
    "command": ["train", "--run={{ run_id }}"],
    "params": {"tag": "v1"},
    "by_hand": ["image", "command"],
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
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    return context_of("t", tmp_path, monkeypatch, conn=Secrets())


def made(hosts: int, context: dict[str, Any], **content: Any) -> Any:
    """The pod, or the template of the Job's pods, as the cluster gets it."""
    operator = prepared(TestDefinition.model_validate({**TEST, "hosts": hosts, **content}), context)
    found = operator.request(context, "t-1")
    return found["spec"]["template"] if hosts > 1 else found


def use_policy(path: Path, monkeypatch: pytest.MonkeyPatch, **content: Any) -> None:
    path.write_text(json.dumps(content))
    monkeypatch.setenv("AIRFLOW__ML_METRICS__POLICY", str(path))


@pytest.mark.parametrize("hosts", HOSTS)
def test_values_of_a_run_are_filled_in_once(hosts: int, context: Any) -> None:
    context["params"] = {"tag": "{{ conn.x.password }}"}
    pod = made(hosts, context, env={"TAG": "{{ params.tag }}", "ARRAY": "${#a[@]}"})
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
def test_a_connection_reaches_no_pod(
    hosts: int, content: dict[str, Any], context: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="does not know 'conn'") as error:
        made(hosts, context, **content)
    assert "canary" not in str(error.value)
    use_policy(tmp_path / "policy", monkeypatch, airflow_templates=True)
    assert "canary" in str(made(hosts, context, **content)), "an administrator can allow it"


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
def test_the_whole_pod_is_checked_before_the_cluster_gets_it(
    hosts: int,
    content: dict[str, Any],
    params: dict[str, Any],
    policy: dict[str, Any],
    what: str,
    context: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use_policy(tmp_path / "policy", monkeypatch, **policy)
    context["params"] = {"tag": "v1", **params}
    with pytest.raises(ConfigError, match=f"refuses this (pod|run).*{what}"):
        made(hosts, context, **content)


@pytest.mark.parametrize("hosts", HOSTS)
def test_no_pod_starts_beside_airflow_unless_the_policy_says_so(
    hosts: int, context: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The namespace is that of the connection, which is known in a run alone."""
    assert made(hosts, context)["spec"]["automountServiceAccountToken"] is False
    monkeypatch.setenv("AIRFLOW__ML_METRICS__AIRFLOW_NAMESPACE", "default")
    assert made(hosts, context), "Airflow has no namespace on the local cluster"
    monkeypatch.setenv("AIRFLOW__ML_METRICS__CLUSTER", "kubernetes")
    with pytest.raises(ConfigError, match=r"namespace: .*'default'.*`\[ml_metrics\] namespace`"):
        made(hosts, context)
    use_policy(tmp_path / "policy", monkeypatch, namespaces=["default"])
    assert made(hosts, context)
    context["params"] = {"tag": "airflow-worker"}
    with pytest.raises(ConfigError, match="'airflow-worker' is not in `service_accounts`"):
        made(hosts, context, service_account="{{ params.tag }}")
    with pytest.raises(ConfigError, match="'airflow-worker' is not in `secrets`"):
        made(hosts, context, volumes={"/s": {"secret": "{{ params.tag }}"}})
    monkeypatch.delenv("AIRFLOW__ML_METRICS__POLICY")
    monkeypatch.setenv("AIRFLOW__ML_METRICS__NAMESPACE", "workloads")
    assert made(hosts, context, service_account="{{ params.tag }}")


@pytest.mark.parametrize("hosts", HOSTS)
def test_an_example_does_not_reach_a_real_cluster(hosts: int, context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert made(hosts, context, image="gcr.io/your-project/digits:latest"), "processes of this machine"
    monkeypatch.setenv("AIRFLOW__ML_METRICS__CLUSTER", "kubernetes")
    with pytest.raises(ConfigError, match=r"t: the image gcr\.io/your-project/digits:latest is an example's: name one"):
        made(hosts, context, image="gcr.io/your-project/digits:latest")
    assert made(hosts, context, image="gcr.io/my-project/digits:latest")


def test_a_refused_recipient_is_not_recorded(context: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_policy(tmp_path / "policy", monkeypatch, recipients=["*@good.org"])
    context["params"] = {"tag": "v1", "notify": "a@good.org, ceo@victim.org"}
    with pytest.raises(ConfigError):
        made(1, context)
    folder = next((tmp_path / "runs" / "t").glob("*"))
    document = RunFolder(str(folder)).read("run")
    assert document is not None
    assert document["notify"] == ["a@good.org"]
