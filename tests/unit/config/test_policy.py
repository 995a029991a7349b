"""The policy of an administrator: what a pod and a test file may ask for."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docstrings import docstrings
from golden import check
from ml_metrics.config.contact import Contact, contact_in
from ml_metrics.config.loading import load_file, load_test, load_tests
from ml_metrics.config.policy import (
    CAPABILITIES,
    SYSCTLS,
    PodRules,
    Policy,
    airflow_namespaces,
    current_policy,
    read_policy,
)
from ml_metrics.config.problems import InvalidFileError
from ml_metrics.config.templates import NAMES as KNOWN
from ml_metrics.config.templates import TEMPLATED
from ml_metrics.ui.cli import main

TEST = "name: t\nimage: registry/image:1\ncommand: [train]\n"


def refused(pod: dict[str, Any], **policy: Any) -> list[str]:
    return [".".join(map(str, where)) for where, _ in PodRules(Policy.model_validate(policy)).of_pod(pod)]


def container(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "base", "image": "i", **fields}]}}


BASELINE: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"spec": {"hostNetwork": True}}, {"host_network": True}),
    ({"spec": {"hostPID": True}}, {"host_processes": True}),
    ({"spec": {"hostIPC": True}}, {"host_processes": True}),
    ({"spec": {"hostPID": "true"}}, {"host_processes": True}),
    ({"spec": {"securityContext": {"windowsOptions": {"hostProcess": True}}}}, {"host_processes": True}),
    (container(securityContext={"windowsOptions": {"hostProcess": True}}), {"host_processes": True}),
    (container(securityContext={"privileged": True}), {"privileged": True}),
    (container(securityContext={"capabilities": {"add": ["SYS_ADMIN"]}}), {"capabilities": ["SYS_ADMIN"]}),
    (container(securityContext={"capabilities": {"add": ["CAP_SYS_PTRACE"]}}), {"capabilities": ["SYS_*"]}),
    (container(securityContext={"capabilities": {"add": ["ALL"]}}), {"privileged": True}),
    (container(securityContext={"capabilities": {"add": ["chown"]}}), {"capabilities": ["CHOWN"]}),
    (container(securityContext={"privileged": "{{ params.p }}"}), {"privileged": True}),
    ({"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}}, {"host_paths": ["/"]}),
    ({"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/mnt/a/b/"}}]}}, {"host_paths": ["/mnt/*"]}),
    (container(ports=[{"containerPort": 1, "hostPort": 80}]), {"host_network": True}),
    (container(livenessProbe={"httpGet": {"host": "169.254.169.254"}}), {"host_network": True}),
    (container(lifecycle={"postStart": {"tcpSocket": {"host": "10.0.0.1"}}}), {"host_network": True}),
    (container(securityContext={"seccompProfile": {"type": "Unconfined"}}), {"privileged": True}),
    ({"spec": {"securityContext": {"seccompProfile": {"type": "Unconfined"}}}}, {"privileged": True}),
    (container(securityContext={"appArmorProfile": {"type": "Unconfined"}}), {"privileged": True}),
    (
        {"metadata": {"annotations": {"container.apparmor.security.beta.kubernetes.io/base": "unconfined"}}},
        {"privileged": True},
    ),
    (
        {"metadata": {"annotations": {"container.apparmor.security.beta.kubernetes.io/base": "runtime/default-not"}}},
        {"privileged": True},
    ),
    ({"metadata": {"annotations": {"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}}}, {"privileged": True}),
    (container(securityContext={"seLinuxOptions": {"type": "spc_t"}}), {"privileged": True}),
    (container(securityContext={"seLinuxOptions": {"user": "system_u"}}), {"privileged": True}),
    (container(securityContext={"procMount": "Unmasked"}), {"privileged": True}),
    (
        {"spec": {"securityContext": {"sysctls": [{"name": "kernel.core_pattern", "value": "|x"}]}}},
        {"privileged": True},
    ),
    ({"spec": {"priorityClassName": "system-node-critical"}}, {"priority_classes": ["system-*"]}),
]


@pytest.mark.parametrize(("pod", "allowing"), BASELINE)
@pytest.mark.parametrize("part", ["containers", "initContainers", "ephemeralContainers"])
def test_the_baseline_is_the_default(pod: dict[str, Any], allowing: dict[str, Any], part: str) -> None:
    moved = {**pod, "spec": {{"containers": part}.get(key, key): value for key, value in pod.get("spec", {}).items()}}
    assert len(refused(moved)) == 1
    assert refused(moved, **allowing) == []


@pytest.mark.parametrize(
    "pod",
    [
        container(securityContext={"capabilities": {"add": sorted(CAPABILITIES), "drop": ["ALL"]}}),
        {"spec": {"securityContext": {"sysctls": [{"name": name, "value": "1"} for name in SYSCTLS]}}},
        {"spec": {"securityContext": {"seLinuxOptions": {"type": "container_t", "level": "s0:c1", "user": ""}}}},
        container(securityContext={"procMount": "Default", "privileged": False}),
        container(securityContext={"seccompProfile": {"type": "Localhost", "localhostProfile": "p"}}),
        {"spec": {"securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}}},
        {"metadata": {"annotations": {"container.apparmor.security.beta.kubernetes.io/base": "localhost/p"}}},
        container(ports=[{"containerPort": 80, "hostPort": 0}]),
        container(livenessProbe={"httpGet": {"port": 80, "host": ""}, "grpc": {"port": 1}}),
        {"spec": {"hostNetwork": False, "hostPID": None, "hostUsers": False, "shareProcessNamespace": True}},
        {
            "spec": {
                "volumes": [{"name": "v", kind: {}} for kind in ("nfs", "csi", "projected", "ephemeral", "emptyDir")]
            }
        },
    ],
)
def test_what_the_baseline_allows_is_allowed(pod: dict[str, Any]) -> None:
    assert refused(pod) == []


@pytest.mark.parametrize(
    ("pod", "policy", "where"),
    [
        (container(image="docker.io/evil"), {"images": ["registry.example.com/*"]}, "spec.containers.0.image"),
        (container(image="python:443/evil:1"), {"images": ["python:*"]}, "spec.containers.0.image"),
        (container(image="python@evil/x"), {"images": ["python@*"]}, "spec.containers.0.image"),
        ({"spec": {"priority": 2_000_001_000}}, {}, "spec.priority"),
        ({"spec": {"priority": "2000001000"}}, {}, "spec.priority"),
        ({"spec": {"priority": 1}}, {"priority_classes": ["low"]}, "spec.priority"),
        (container(image="good.org.evil/x"), {"images": ["good.org/*"]}, "spec.containers.0.image"),
        (
            {"spec": {"volumes": [{"name": "v", "image": {"reference": "evil"}}]}},
            {"images": ["good/*"]},
            "spec.volumes.0.image.reference",
        ),
        ({"spec": {"serviceAccountName": "admin"}}, {"service_accounts": ["runner"]}, "spec.serviceAccountName"),
        ({"spec": {"serviceAccount": "admin"}}, {"service_accounts": ["runner"]}, "spec.serviceAccount"),
        ({"spec": {"volumes": [{"name": "v", "nfs": {}}]}}, {"volumes": ["emptyDir"]}, "spec.volumes.0.nfs"),
        (
            container(envFrom=[{"secretRef": {"name": "s"}}]),
            {"secrets": []},
            "spec.containers.0.envFrom.0.secretRef.name",
        ),
        (
            container(env=[{"name": "X", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]),
            {"secrets": ["own-*"]},
            "spec.containers.0.env.0.valueFrom.secretKeyRef.name",
        ),
        ({"spec": {"volumes": [{"secret": {"secretName": "s"}}]}}, {"secrets": []}, "spec.volumes.0.secret.secretName"),
        (
            {"spec": {"volumes": [{"projected": {"sources": [{"secret": {"name": "s"}}]}}]}},
            {"secrets": []},
            "spec.volumes.0.projected.sources.0.secret.name",
        ),
        ({"spec": {"imagePullSecrets": [{"name": "s"}]}}, {"secrets": []}, "spec.imagePullSecrets.0.name"),
    ],
)
def test_what_lists_leave_out(pod: dict[str, Any], policy: dict[str, Any], where: str) -> None:
    assert refused(pod, **policy) == [where]


@pytest.mark.parametrize(
    ("image", "pattern"),
    [
        ("python:3.11", "python:*"),
        ("python@sha256:ab", "python@sha256:*"),
        ("python:3@sha256:ab", "python:3@*"),
        ("localhost:5000/a/b:1", "localhost:5000/*"),
        ("r.example.com/p/a/b:1", "r.example.com/p/*"),
        ("r.example.com/p/a:1", "*/a:[0-9]"),
    ],
)
def test_images_that_a_pattern_fits(image: str, pattern: str) -> None:
    assert refused(container(image=image), images=[pattern]) == []


@pytest.mark.parametrize(
    ("path", "allowed"),
    [("/mnt/../etc", "/mnt/*"), ("mnt", "*"), ("/mnt/a", "/mnt"), ("//mnt", "/mnt"), ("/", "/mnt/*"), ("", "*")],
)
def test_folders_of_the_node_are_named_one_by_one(path: str, allowed: str) -> None:
    pod = {"spec": {"volumes": [{"name": "v", "hostPath": {"path": path}}]}}
    assert refused(pod, host_paths=[allowed]) == ["spec.volumes.0.hostPath.path"]


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from([
            "metadata", "spec", "containers", "volumes", "securityContext", "capabilities", "add", "hostPath", "path",
            "privileged", "type", "annotations", "seccompProfile", "sysctls", "name", "ports", "image", "secret",
        ]),
        inner,
        max_size=4,
    ),
    max_leaves=20,
)  # fmt: skip


@given(ANYTHING)
def test_any_value_in_any_place_is_checked_without_an_error(value: Any) -> None:
    refused({"metadata": value, "spec": value}, images=[], secrets=[], volumes=[], host_paths=[])


@given(st.sampled_from([pod for pod, _ in BASELINE]), ANYTHING)
def test_nothing_beside_it_hides_what_is_refused(pod: dict[str, Any], more: Any) -> None:
    assert refused({**pod, "spec": {"other": more, **pod.get("spec", {})}}) != []


@pytest.mark.parametrize(
    ("line", "policy", "where"),
    [
        ("namespace: kube-system", "", "t.yaml:4: namespace"),
        ("namespace: other", "namespaces: [team-*]", "t.yaml:4: namespace"),
        ("service_account: admin", "service_accounts: [runner]", "t.yaml:4: service_account"),
        ("priority_class: system-node-critical", "", "t.yaml:4: priority_class"),
        ("image_pull_secrets: [s]", "secrets: []", "t.yaml:4: image_pull_secrets[0]"),
        ("secrets: {A: s/k}", "secrets: []", "t.yaml:4: secrets.A"),
        ("volumes: {/d: {host_path: /etc}}", "", "t.yaml:4: volumes./d.host_path"),
        ("volumes: {/d: {secret: s}}", "secrets: []", "t.yaml:4: volumes./d.secret"),
        ("volumes: {/d: {bucket: b}}", "volumes: [emptyDir]", "t.yaml:4: volumes./d.bucket"),
        ("emails: [a@good.org, ceo@victim.org]", 'recipients: ["*@good.org"]', "t.yaml:4: emails[1]"),
        ("sender: ceo@victim.org", 'senders: ["*@good.org"]', "t.yaml:4: sender"),
        ("pod: {spec: {hostPID: true}}", "", "t.yaml:4: pod.spec.hostPID"),
        ("pod: {spec: {containers: [{name: x, image: evil}]}}", "images: [registry/*]", "pod.spec.containers[0].image"),
        ("init_containers: [{name: x, image: evil}]", "images: [registry/*]", "t.yaml:4: init_containers[0].image"),
        ("cluster: {project: p, location: l, name: n}", "clusters: [mine/*]", "t.yaml:4: cluster"),
        ("labels: {job-name: another}", "", "t.yaml:4: labels.job-name"),
        ("pod: {metadata: {labels: {ml-metrics/run-key: x}}}", "", "pod.metadata.labels.ml-metrics/run-key"),
        ("args: ['{{ conn.x.password }}']", "", "t.yaml:4: args[0]"),
        ("env: {X: '{{ var.value.x }}'}", "", "t.yaml:4: env.X"),
        ("pod: {spec: {hostname: '{{ ti }}'}}", "", "t.yaml:4: pod.spec.hostname"),
        ("volumes: {/d: {claim: '{{ ti }}'}}", "", "t.yaml:4: volumes./d.claim"),
        ("by_hand: [image]", "by_hand: [command]", "t.yaml:4: by_hand[0]"),
        ("namespace: '{{ params.x }}'", "", "t.yaml:4: namespace"),
    ],
)
def test_a_test_file_is_checked_with_its_lines(line: str, policy: str, where: str, tmp_path: Path) -> None:
    root = tmp_path / "tests"
    root.mkdir()
    (root / "t.yaml").write_text(f"{TEST}{line}\n")
    (root / "innocent.yaml").write_text(TEST.replace("name: t", "name: innocent"))
    (tmp_path / "policy.yaml").write_text(policy or "{}")
    loaded = load_tests(root, read_policy(tmp_path / "policy.yaml"))
    assert [test.name for test in loaded.tests] == ["innocent"]
    assert {problem.test for problem in loaded.problems} == {"t"}
    assert where in str(loaded.problems[0])


def test_the_image_of_a_template_is_checked_with_the_default(tmp_path: Path) -> None:
    text = TEST.replace("registry/image:1", "'{{ params.where }}/x'") + "params: {where: evil}\n"
    (tmp_path / "t.yaml").write_text(text)
    with pytest.raises(InvalidFileError, match="'evil/x' is not in `images` of the policy, which has good/"):
        load_file(tmp_path / "t.yaml", policy=Policy(images=("good/*",)))


def test_a_policy_that_cannot_be_used_stops_every_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "tests"
    root.mkdir()
    (root / "t.yaml").write_text(TEST)
    policy = tmp_path / "policy.yaml"
    monkeypatch.setenv("AIRFLOW__ML_METRICS__POLICY", str(policy))
    for content, what in [(None, "cannot be read"), ("images: 3", "should be a list"), ("image: []", "unknown key")]:
        if content is not None:
            policy.write_text(content)
        loaded = load_tests(root)
        assert loaded.tests == ()
        assert [problem.test for problem in loaded.problems] == ["t"]
        assert what in str(loaded.problems[0])
        with pytest.raises(InvalidFileError, match=what):
            load_test(root, "t")
    policy.write_text("images: []")
    assert "'registry/image:1' is not in `images` of the policy, which has nothing" in str(load_tests(root).problems[0])
    policy.write_text("images: ['*']")
    assert [test.name for test in load_tests(root).tests] == ["t"], "a changed policy counts at once"


def test_authors_cannot_write_the_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "_policy.yaml").write_text("privileged: true")
    monkeypatch.setenv("AIRFLOW__ML_METRICS__POLICY", str(tmp_path / "_policy.yaml"))
    with pytest.raises(InvalidFileError, match="in the folder of test files"):
        current_policy(tmp_path)


def test_a_refused_recipient_is_not_told_that_it_was_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, policy = tmp_path / "tests", tmp_path / "policy.yaml"
    root.mkdir()
    monkeypatch.setenv("AIRFLOW__ML_METRICS__POLICY", str(policy))
    for ending in ("", "broken: [\n"):
        (root / "t.yaml").write_text(f"{TEST}owner: team\nemails: [a@good.org, ceo@victim.org]\n{ending}")
        policy.write_text('recipients: ["*@good.org"]')
        assert contact_in(root / "t.yaml", root) == Contact("team", ("a@good.org",))
        policy.write_text("recipients: 7 # no list")
        assert contact_in(root / "t.yaml", root) == Contact("team")


def test_airflows_templates_are_an_administrators_choice(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(f"{TEST}args: ['{{{{ var.value.x }}}}']\n")
    assert load_file(tmp_path / "t.yaml", policy=Policy(airflow_templates=True)).tests


def test_validate_takes_another_policy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.yaml").write_text(f"{TEST}pod: {{spec: {{hostNetwork: true}}}}\n")
    (tmp_path / "policy").mkdir()
    policy = tmp_path / "policy" / "p.yaml"
    policy.write_text("host_network: true")
    assert main(["validate", str(tmp_path / "t.yaml")]) == 1
    assert "t.yaml:4: pod.spec.hostNetwork: the policy allows 'hostNetwork' only with" in capsys.readouterr().out
    assert main(["validate", str(tmp_path / "t.yaml"), "--policy", str(policy)]) == 0
    policy.write_text("no: policy")
    assert main(["validate", str(tmp_path / "t.yaml"), "--policy", str(policy)]) == 2
    assert f"{policy}:1: no: unknown key" in capsys.readouterr().err


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
    monkeypatch.setattr("ml_metrics.config.policy.OF_THIS_POD", file)
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


DOC = Path(__file__).parents[3] / "docs" / "settings.md"


def test_every_key_is_listed() -> None:
    text = DOC.read_text(encoding="utf-8")
    rows = [f"- `{key}`: {meaning}" for key, meaning in docstrings(Policy).items()]
    assert len(rows) == len(Policy.model_fields)
    listed = "\n".join(rows)
    filled = f"<!-- keys: Policy -->\n\n{listed}\n\n<!-- end -->"
    check(str(DOC), re.sub(r"<!-- keys: Policy -->.*?<!-- end -->", lambda _: filled, text, flags=re.DOTALL))


def test_the_keys_that_allow_what_baseline_refuses_are_named() -> None:
    """Each key has a pod in `BASELINE` that is refused without it."""
    sentence = DOC.read_text(encoding="utf-8").partition("Of\nthese keys, ")[2].partition(" allow it:")[0]
    keys = set(re.findall(r"`([a-z_]+)`", sentence))
    assert keys == {key for _, allowing in BASELINE for key in allowing} - {"priority_classes"}


def test_what_templates_know_is_listed() -> None:
    text = DOC.read_text(encoding="utf-8").partition("\n## Templates\n")[2].partition("\n## ")[0]
    words = set(re.findall(r"`([a-z_]+)(?:\.name)?`", text))
    assert words >= KNOWN
    assert words >= set(TEMPLATED)


def test_the_example_is_a_policy(tmp_path: Path) -> None:
    (example,) = re.findall(r"```\n(# /etc.*?)```", DOC.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "policy.yaml").write_text(example)
    policy = read_policy(tmp_path / "policy.yaml")
    assert policy.allows("images", "python:3.11")
    assert not policy.allows("images", "docker.io/python:3.11")
    assert policy.allows_host_path("/mnt/datasets/imagenet")
