"""Airflow knows the package as a provider: the description is valid, complete, and the only list of options."""

from __future__ import annotations

import ast
import dataclasses
import json
import os
import subprocess
import sys
from functools import cache
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import airflow
import jsonschema
import pytest

import ml_metrics
from ml_metrics.airflow.provider_info import get_provider_info
from ml_metrics.core.settings import SECTION, Settings
from syntax import syntax_of

PACKAGE = Path(ml_metrics.__file__).parent
INFO = get_provider_info()
BASES = {"WaitsInTriggerer", "WorkloadBase"}
"""Classes that are no operators by themselves."""
KINDS = {
    "operators": (
        "BaseOperator",
        "KubernetesPodOperator",
        "KubernetesJobOperator",
        "GKEStartPodOperator",
        "HITLOperator",
    ),
    "hooks": ("BaseHook", "KubernetesHook"),
    "triggers": ("BaseTrigger", "KubernetesPodTrigger", "HITLTrigger"),
    "sensors": ("BaseSensorOperator",),
    "extra-links": ("BaseOperatorLink",),
    "notifications": ("BaseNotifier",),
    "secrets-backends": ("BaseSecretsBackend",),
    "executors": ("BaseExecutor",),
}
"""The classes of Airflow whose subclasses a provider lists."""


@cache
def bases() -> dict[str, tuple[str, set[str]]]:
    """Return the module and the names of the bases of each class in the package."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        module = ".".join(("ml_metrics", *path.relative_to(PACKAGE).with_suffix("").parts))
        for node in ast.walk(syntax_of(path.read_bytes())):
            if isinstance(node, ast.ClassDef):
                found[node.name] = module, {ast.unparse(base).split(".")[-1] for base in node.bases}
    return found


def derives(name: str, ancestors: tuple[str, ...]) -> bool:
    return name in ancestors or any(derives(base, ancestors) for base in bases().get(name, ("", set()))[1] - {name})


def test_the_description_is_valid() -> None:
    schema = json.loads((Path(airflow.__file__).parent / "provider_info.schema.json").read_text())
    jsonschema.validate(INFO, schema)


@pytest.mark.parametrize("kind", KINDS)
def test_the_description_lists_everything_of_a_kind(kind: str) -> None:
    modules = {module for name, (module, _) in bases().items() if name not in BASES and derives(name, KINDS[kind])}
    listed = {module for one in INFO.get(kind, []) for module in one["python-modules"]}
    assert listed == modules


def test_the_description_has_every_option_with_its_default() -> None:
    options = INFO["config"][SECTION]["options"]
    assert {name: option["default"] for name, option in options.items()} == {
        field.name: field.default for field in dataclasses.fields(Settings)
    }
    assert all(option["description"].strip() for option in options.values())
    assert [name for name, option in options.items() if option.get("sensitive")] == [
        field.name for field in dataclasses.fields(Settings) if not field.repr
    ]


def test_the_name_is_that_of_the_distribution() -> None:
    assert INFO["package-name"] == distribution("airflow-provider-ml-metrics").metadata["Name"]


KNOWN = """
import json
from airflow.providers_manager import ProvidersManager
manager = ProvidersManager()
info = manager.providers["airflow-provider-ml-metrics"]
options = dict(manager.provider_configs)["airflow-provider-ml-metrics"]["ml_metrics"]["options"]
from airflow.configuration import conf
conf.load_providers_configuration() if hasattr(conf, "load_providers_configuration") else None
secret = conf.as_dict(display_sensitive=False, display_source=True).get("ml_metrics", {}).get("documents_key")
print(json.dumps({"version": info.version, "options": sorted(options), "default": conf.get("ml_metrics", "dataset"),
                  "secret": str(secret)}))
"""


def output_of(code: str, **more: str) -> dict[str, Any]:
    environment = {**os.environ, "PYTHONWARNINGS": "", **more}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    output: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return output


@pytest.mark.e2e
def test_airflow_finds_the_provider_by_its_entry_point() -> None:
    output = output_of(KNOWN, AIRFLOW__ML_METRICS__DOCUMENTS_KEY="0123456789abcdef")
    assert output["version"] == ml_metrics.__version__
    assert output["options"] == sorted(field.name for field in dataclasses.fields(Settings))
    assert output["default"] == Settings().dataset
    assert "0123456789abcdef" not in output["secret"]
