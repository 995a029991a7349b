"""A test as Kubernetes objects."""

from __future__ import annotations

from functools import cache
from typing import Any

import kubernetes_validate
import pytest
import yaml

from golden import check
from ml_metrics import ConfigError, TestDefinition
from ml_metrics.airflow.clusters.manifests import cron_job, job, pod, service
from ml_metrics.config.accelerators import catalogue

NEWEST = kubernetes_validate.latest_version()


def definition(**fields: Any) -> TestDefinition:
    common = {"framework": "jax", "model": "m", "mode": "func", "image": "image:v1", "command": ["train"]}
    return TestDefinition.model_validate({**common, **fields})


def container(manifest: dict[str, Any]) -> dict[str, Any]:
    template = manifest["spec"].get("template", manifest)
    (only,) = template["spec"]["containers"]
    return only


def variables(manifest: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["value"] for one in container(manifest)["env"] if "value" in one}


def valid(*manifests: dict[str, Any] | None) -> None:
    for manifest in manifests:
        if manifest is not None:
            kubernetes_validate.validate(manifest, NEWEST, strict=True)


def test_every_accelerator_makes_valid_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    # each call would read megabytes of schemas again
    monkeypatch.setattr("kubernetes_validate.utils.schema_contents", cache(kubernetes_validate.utils.schema_contents))
    for name in catalogue():
        test = definition(accelerator=name, schedule="@daily")
        valid(pod(test), job(test), cron_job(test), service(test))


def test_the_resources_of_each_accelerator() -> None:
    resources = {}
    for name in catalogue():
        test = definition(accelerator=name)
        made = job(test)["spec"]
        template = made["template"]["spec"]
        parts = {
            "pods": made.get("completions", 1),
            "limits": container(job(test)).get("resources", {}).get("limits"),
            "nodeSelector": template.get("nodeSelector"),
            "tolerations": [toleration["key"] for toleration in template.get("tolerations", [])] or None,
        }
        resources[name] = {key: value for key, value in parts.items() if value is not None}
    check("clusters/accelerators.yaml", yaml.safe_dump(resources, sort_keys=False))


def test_the_pod_of_every_accelerator() -> None:
    """Word for word: what the operator asks a cluster for, and what `ml-metrics render --pod` prints."""
    pods = [pod(definition(accelerator=name, timeout="2h")) for name in catalogue()]
    check("clusters/pods.yaml", yaml.safe_dump_all(pods, sort_keys=False, default_flow_style=None, width=120))


def test_all_keys_of_a_test_make_valid_objects() -> None:
    test = definition(
        accelerator="h100x8",
        schedule="@quarterly",
        timeout="90m",
        args=["--x"],
        env={"A": 1, "B": "$(MODEL_DIR)/b"},
        secrets={"TOKEN": "s/k"},
        config_maps=["one", "two"],
        resources={"cpu": 2, "memory": "4Gi", "ephemeral_storage": "10Gi", "limits": {"memory": "8Gi"}},
        namespace="tests",
        service_account="runner",
        labels={"team": "vision"},
        annotations={"note": "any text: at all"},
        node_selector={"pool": "gpu"},
        tolerations=[{"key": "spot", "operator": "Exists"}],
        volumes={
            "/a": {"claim": "c", "read_only": True},
            "/b": {"config_map": "c"},
            "/c": {"secret": "s"},
            "/d": {"host_path": "/mnt"},
            "/e": {"bucket": "b", "read_only": True},
            "/dev/shm": {"memory": "1Gi"},
            "/f": {"scratch": "1Gi"},
            "/": {"scratch": "1Gi"},
        },
        image_pull_secrets=["registry"],
        init_containers=[{"name": "fetch", "image": "fetch"}],
        priority_class="nightly",
        queue="gpu",
        hosts=2,
        retries=3,
    )
    valid(pod(test), job(test), cron_job(test), service(test))
    check("clusters/everything.yaml", yaml.safe_dump_all([service(test), cron_job(test)], sort_keys=False))


def test_overrides_are_merged_last() -> None:
    override = {
        "metadata": {"annotations": {"a": "b"}},
        "spec": {
            "activeDeadlineSeconds": None,
            "containers": [{"name": "base", "tty": True}, {"name": "sidecar", "image": "proxy"}],
        },
    }
    made = pod(definition(pod=override))
    valid(made)
    assert made["metadata"]["annotations"] == {"a": "b"}
    assert "activeDeadlineSeconds" not in made["spec"]
    base, sidecar = made["spec"]["containers"]
    assert (base["tty"], base["image"], sidecar) == (True, "image:v1", {"name": "sidecar", "image": "proxy"})


def test_a_node_selector_can_be_removed() -> None:
    made = pod(definition(accelerator="t4", node_selector={"cloud.google.com/gke-accelerator": None, "gpu": "t4"}))
    assert made["spec"]["nodeSelector"] == {"gpu": "t4"}


def test_the_run_folder_is_in_the_environment() -> None:
    assert variables(pod(definition()))["MODEL_DIR"] == "$(OUTPUT_BUCKET)/jax-m-func-cpu/$(JOB_NAME)"
    found = variables(pod(definition(env={"A": "$(MODEL_DIR)"}), run_dir="/runs/1", env={"JOB_NAME": "j"}))
    assert found == {
        "ML_METRICS_RUN_DIR": "/runs/1",
        "MODEL_DIR": "/runs/1",
        "A": "$(MODEL_DIR)",
        "JOB_NAME": "j",
    }


def test_several_hosts_are_an_indexed_job_with_a_service() -> None:
    test = definition(accelerator="v5litepod-16")
    made = job(test, name="run-1")
    assert (made["spec"]["completions"], made["spec"]["completionMode"]) == (4, "Indexed")
    assert made["spec"]["template"]["spec"]["subdomain"] == "run-1"
    headless = service(test, name="run-1")
    assert headless is not None
    assert headless["spec"]["clusterIP"] == "None"
    assert headless["spec"]["selector"] == {"job-name": "run-1"}
    environment = variables(made)
    assert (environment["ML_METRICS_HOSTS"], environment["ML_METRICS_FIRST_HOST"]) == ("4", "$(KUBERNETES_JOB)-0.run-1")
    assert service(definition()) is None


def test_a_queue_applies_to_the_job_and_not_to_its_pods() -> None:
    made = job(definition(queue="tpu"))
    assert made["spec"]["suspend"] is True
    assert made["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "tpu"
    assert "kueue.x-k8s.io/queue-name" not in made["spec"]["template"]["metadata"]["labels"]
    assert pod(definition(queue="tpu"))["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "tpu"


def test_labels_are_valid_for_every_owner() -> None:
    valid(pod(definition(owner="Vision Team <vision@example.com>" + "x" * 80)))


@pytest.mark.parametrize("schedule", [None, "@once", "@continuous"])
def test_a_cron_job_needs_a_cron_schedule(schedule: str | None) -> None:
    with pytest.raises(ConfigError, match="needs a schedule in cron format"):
        cron_job(definition(schedule=schedule))


@pytest.mark.parametrize("kind", [pod, lambda test: job(test)["spec"]["template"]])
@pytest.mark.parametrize(
    ("more", "token"),
    [
        ({}, False),
        ({"pod": {"spec": {"automountServiceAccountToken": None}}}, False),
        ({"pod": {"spec": {"automountServiceAccountToken": True}}}, True),
        ({"service_account": "trainer"}, None),
        ({"pod": {"spec": {"serviceAccountName": "trainer"}}}, None),
    ],
)
def test_only_who_asks_for_an_account_gets_its_token(kind: Any, more: dict[str, Any], token: bool | None) -> None:
    spec = kind(TestDefinition.model_validate({"name": "t", "image": "i", "command": ["c"], **more}))["spec"]
    assert spec.get("automountServiceAccountToken") is token
