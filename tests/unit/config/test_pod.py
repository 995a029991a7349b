"""What a pod states is known to Kubernetes, and ends soon after the test says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kubernetes.client import ApiClient, models

from ml_metrics import TestDefinition
from ml_metrics.airflow.clusters.manifests import pod
from ml_metrics.config.loading import load_file
from ml_metrics.config.pod import unknown_in
from ml_metrics.config.policy import PodRules, Policy
from ml_metrics.config.problems import InvalidFileError

TEST: dict[str, Any] = {"name": "t", "image": "i", "command": ["c"], "timeout": "1h"}
CENTURIES = 10_000_000_000


def problems(tmp_path: Path, **content: Any) -> list[str]:
    """Return what is wrong with a test file, with the key that it is about."""
    path = tmp_path / "t.yaml"
    path.write_text(json.dumps({**TEST, **content}))
    try:
        load_file(path, tmp_path, Policy())
    except InvalidFileError as error:
        return [f"{problem.path}: {problem.what}" for problem in error.problems]
    return []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"pod": {"spec": {"host_network": True}}}, "pod.spec.host_network: Kubernetes has no such key here; did you"),
        (
            {"pod": {"spec": {"volumes": [{"name": "v", "hostpath": {"path": "/"}}]}}},
            "pod.spec.volumes[0].hostpath: Kubernetes has no such key here; did you mean 'hostPath'?",
        ),
        (
            {"pod": {"spec": {"containers": [{"name": "base", "imagePullPolcy": "Always"}]}}},
            "pod.spec.containers[0].imagePullPolcy: Kubernetes has no such key here; did you mean 'imagePullPolicy'?",
        ),
        ({"pod": {"metadata": {"anotations": {}}}}, "pod.metadata.anotations: Kubernetes has no such key here"),
        (
            {"init_containers": [{"name": "a", "image": "i", "env": [{"nme": "X"}]}]},
            "init_containers[0].env[0].nme: Kubernetes has no such key here; did you mean 'name'?",
        ),
        ({"tolerations": [{"keys": "x"}]}, "tolerations[0].keys: Kubernetes has no such key here; did you mean 'key'?"),
        ({"pod": {"spec": {"affinity": [1]}}}, "pod.spec.affinity: should be a mapping"),
        ({"pod": {"spec": {"volumes": {"name": "v"}}}}, "pod.spec.volumes: should be a list"),
        ({"pod": {"metadata": {"labels": ["a"]}}}, "pod.metadata.labels: should be a mapping"),
        ({"pod": {"spec": None}}, "pod: spec should be a mapping"),
    ],
)
def test_what_kubernetes_does_not_know_is_an_error(content: dict[str, Any], message: str, tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, **content)
    assert problem.startswith(message)


def whole(model: str, depth: int = 0) -> Any:
    """Return a value with every key of a model."""
    if model.startswith("list["):
        return [whole(model[5:-1], depth)]
    if model.startswith(("dict[", "dict(")):
        return {"any key": whole(model[5:-1].partition(", ")[2], depth)}
    if not model[0].isupper():
        return {"bool": True, "int": 1, "datetime": "2026-01-01T00:00:00Z"}.get(model, "x")
    found = getattr(models, model)
    return {found.attribute_map[name]: whole(kind, depth + 1) for name, kind in found.openapi_types.items()}


def test_every_key_of_the_client_is_known_and_reaches_its_model() -> None:
    """The client itself keeps each of them."""
    spec = whole("V1PodSpec")
    test = TestDefinition.model_construct(pod={"spec": spec}, init_containers=(), tolerations=())
    assert list(unknown_in(test)) == []
    client = ApiClient()
    (read,) = [client._ApiClient__deserialize(spec, "V1PodSpec")]  # type: ignore[attr-defined]
    assert client.sanitize_for_serialization(read).keys() == spec.keys()


@settings(max_examples=50)
@given(key=st.from_regex(r"[a-zA-Z_]{1,12}", fullmatch=True), part=st.sampled_from(["spec", "metadata"]))
def test_a_key_is_known_or_an_error(key: str, part: str) -> None:
    model = {"spec": models.V1PodSpec, "metadata": models.V1ObjectMeta}[part]
    test = TestDefinition.model_construct(pod={part: {key: None}}, init_containers=(), tolerations=())
    assert (list(unknown_in(test)) == []) is (key in model.attribute_map.values())


@pytest.mark.parametrize("kind", ["gitRepo", "flexVolume"])
def test_volumes_that_run_programs_of_the_node_need_the_policy(kind: str, tmp_path: Path) -> None:
    volume = {"name": "v", kind: {"repository": "r"} if kind == "gitRepo" else {"driver": "d"}}
    (problem,) = problems(tmp_path, pod={"spec": {"volumes": [volume]}})
    assert problem.startswith(f"pod.spec.volumes[0].{kind}: {kind!r} is not in `volumes` of the policy")
    assert list(PodRules(Policy(volumes=(kind,))).of_pod({"spec": {"automountServiceAccountToken": False, "volumes": [volume]}})) == []  # fmt: skip  # noqa: E501


OUTLIVING: list[dict[str, Any]] = [
    {"metadata": {"finalizers": ["example.com/never"]}},
    {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]}},
    {"spec": {"terminationGracePeriodSeconds": 3601}},
    {"spec": {"terminationGracePeriodSeconds": CENTURIES}},
    {"spec": {"terminationGracePeriodSeconds": "soon"}},
    *(
        {"spec": {part: [{"name": "base", probe: {"terminationGracePeriodSeconds": CENTURIES}}]}}
        for part in ("containers", "initContainers", "ephemeralContainers")
        for probe in ("livenessProbe", "startupProbe")
    ),
    {"spec": {"activeDeadlineSeconds": 3601}},
    {"spec": {"activeDeadlineSeconds": None}},
    {"spec": {"activeDeadlineSeconds": "{{ params.x }}"}},
]


@pytest.mark.parametrize("override", OUTLIVING, ids=json.dumps)
def test_no_pod_outlives_its_timeout_by_more_than_an_hour(override: dict[str, Any], tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, pod=override, params={"x": "1"})
    assert problem.startswith("pod.")


@settings(max_examples=100)
@given(seconds=st.integers(-10, 10_000) | st.integers(0, 10**40), text=st.booleans())
def test_a_grace_period_is_bounded_also_if_a_template_made_it(seconds: int, text: bool) -> None:
    spec = {"terminationGracePeriodSeconds": str(seconds) if text else seconds}
    found = list(PodRules(Policy()).of_pod({"spec": {"automountServiceAccountToken": False, **spec}}))
    assert (found == []) is (0 <= seconds <= 3600)


def test_shorter_times_are_the_authors_own(tmp_path: Path) -> None:
    own = {"activeDeadlineSeconds": 60, "terminationGracePeriodSeconds": 120}
    assert problems(tmp_path, pod={"spec": own}) == []
    made = pod(TestDefinition.model_validate({**TEST, "pod": {"spec": own}}))
    assert made["spec"].items() >= own.items()
