"""deploy/terraform is parsed and compared with deploy/composer.sh and deploy/composer-roles.txt. It is not applied."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import hcl2
import pytest

from campaigns.deployments.conftest import Cloud
from servers.compose_file import PROJECT

MODULE = PROJECT / "deploy" / "terraform"
TEXT = "\n".join(file.read_text() for file in sorted(MODULE.glob("*.tf")))
CODE = re.sub(r"^\s*#.*$", "", TEXT, flags=re.MULTILINE)
VALUES = {
    "google_storage_bucket.runs.name": "runs",
    "google_bigquery_dataset.metrics.dataset_id": "rows",
    "var.deployment": "nightly",
    "var.channels": "outbox,sendgrid",
}
SCOPES = {
    "google_project_iam_member.project": "the project",
    "google_project_iam_member.cluster_project": "the project of the accelerator clusters",
    "google_project_iam_member.log_project": "the project of the log",
    "google_bigquery_dataset_iam_member.metrics": "the dataset",
    "google_storage_bucket_iam_member.runs": "the bucket of run folders",
    "google_secret_manager_secret_iam_member.secret": "the secrets",
    "google_service_account_iam_member.impersonated": "each account of an `impersonation_chain`",
    "google_service_account_iam_member.itself": "the account itself",
    "google_artifact_registry_repository_iam_member.wheels": "the repository of wheels",
}
"""What the list of roles calls each resource that grants some."""
WORKLOADS = "google_storage_bucket_iam_member.workloads"


def parsed() -> dict[str, list[Any]]:
    """Return the blocks of all files, with plain strings."""
    found: dict[str, list[Any]] = {}
    for file in sorted(MODULE.glob("*.tf")):
        for kind, blocks in _plain(hcl2.loads(file.read_text())).items():
            if not kind.startswith("__"):
                found.setdefault(kind, []).extend(blocks)
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {_plain(key): _plain(one) for key, one in value.items() if key != "__is_block__"}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    is_quoted = isinstance(value, str) and len(value) > 1 and value[0] == value[-1] == '"'
    return json.loads(value) if is_quoted else value


@pytest.fixture(scope="module")
def module() -> dict[str, list[Any]]:
    return parsed()


def resources(module: dict[str, list[Any]]) -> dict[str, dict[str, Any]]:
    return {
        f"{kind}.{name}": body
        for block in module["resource"]
        for kind, named in block.items()
        for name, body in named.items()
    }


def local_values(module: dict[str, list[Any]]) -> dict[str, Any]:
    return {name: value for block in module["locals"] for name, value in block.items()}


def test_the_roles_are_those_of_the_list(module: dict[str, list[Any]]) -> None:
    values = local_values(module)
    granted = set()
    for name, body in resources(module).items():
        if "_iam_" not in name or name == WORKLOADS:
            continue
        lists = [one for key, one in values.items() if key.endswith("_roles") and f"local.{key}" in CODE_OF[name]]
        roles = [body["role"]] if body["role"].startswith("roles/") else lists[0]
        granted |= {(role, SCOPES[name]) for role in roles}
    listed = [line.split(" | ") for line in (PROJECT / "deploy" / "composer-roles.txt").read_text().splitlines()[1:]]
    assert granted == {(role, scope) for role, scope, _ in listed}


CODE_OF = {
    f"{kind}.{name}": body
    for kind, name, body in re.findall(r'^resource "(\w+)" "(\w+)" \{(.*?)^\}', CODE, re.MULTILINE | re.DOTALL)
}


def test_only_the_account_of_the_environment_gets_roles_and_workloads_write_the_bucket(
    module: dict[str, list[Any]],
) -> None:
    members = {name: body["member"] for name, body in resources(module).items() if "_iam_" in name}
    assert members.pop(WORKLOADS) == "${each.value}"
    assert resources(module)[WORKLOADS]["role"] == "roles/storage.objectUser"
    assert set(members.values()) == {"${local.member}"}
    assert local_values(module)["member"] == "serviceAccount:${google_service_account.airflow.email}"
    assert not re.search(r"_iam_(binding|policy)", CODE), "those would take the roles of others away"


def test_the_settings_are_those_of_the_command(
    module: dict[str, list[Any]],
    cloud: Cloud,
) -> None:
    options = ("--storage-root", "gs://runs/runs", "--dataset", "rows", "--channels", "outbox,sendgrid")
    done = cloud.deploy("--environment", "nightly", "--location", "us-central1", *options)
    assert done.returncode == 0, done.stderr
    expected = cloud.software["airflowConfigOverrides"]
    for of_environment in ("ml_metrics-dashboard_url", "celery-worker_concurrency"):
        del expected[of_environment]
    settings = {
        key: re.sub(r"\$\{([\w.]+)\}", lambda match: VALUES[match[1]], value)
        for key, value in local_values(module)["settings"].items()
    }
    assert settings == expected


def test_whatever_is_referred_to_is_there(module: dict[str, list[Any]]) -> None:
    variables = {name for block in module["variable"] for name in block}
    assert set(re.findall(r"\bvar\.(\w+)", CODE)) == variables
    assert set(re.findall(r"\blocal\.(\w+)", CODE)) == set(local_values(module))
    assert set(re.findall(r"\b(google_\w+\.\w+)", CODE)) <= set(resources(module))


def test_no_value_of_a_secret_is_in_the_state(module: dict[str, list[Any]]) -> None:
    assert "secret_version" not in CODE
    assert resources(module)["google_secret_manager_secret.secret"]["secret_id"] == "${each.value}"


def test_the_docs_name_every_variable_and_output(module: dict[str, list[Any]]) -> None:
    page = (PROJECT / "docs" / "composer.md").read_text().partition("## With Terraform")[2]
    names = {name: body for kind in ("variable", "output") for block in module[kind] for name, body in block.items()}
    for name, body in names.items():
        assert f"`{name}`" in page or f"module.ml_metrics.{name}\n" in page, name
        assert body["description"], name
    (example,) = re.findall(r"```terraform\n(.*?)```", page, re.DOTALL)
    (block,) = _plain(hcl2.loads(example))["module"]
    given = set(block["ml_metrics"]) - {"source"}
    required = {name for one in module["variable"] for name, body in one.items() if "default" not in body}
    assert required <= given <= set(names)
    assert Path(PROJECT, "deploy", "terraform") == MODULE
