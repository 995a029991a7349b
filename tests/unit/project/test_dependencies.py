"""What the package imports, its distribution states: as a dependency, or as an extra that a message names."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import ml_metrics
from ml_metrics.core.extras import EXTRAS
from syntax import syntax_of

PACKAGE = Path(ml_metrics.__file__).parent
PROJECT = PACKAGE.parents[1]
TABLE = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
LINES = re.compile(r"^([A-Za-z0-9._-]+)(?:\[.*?\])?==([^\s;]+)", re.MULTILINE)
DISTRIBUTIONS = {
    "_gojsonnet": "gojsonnet",
    "grpc": "grpcio",
    "re2": "google-re2",
    "sklearn": "scikit-learn",
    "vl_convert": "vl-convert-python",
    "yaml": "pyyaml",
}
"""The distributions of modules with another name."""
MODULES = {
    "airflow": "apache-airflow",
    "airflow.providers.cncf": "apache-airflow-providers-cncf-kubernetes",
    "airflow.providers.google": "apache-airflow-providers-google",
    "airflow.providers.standard": "apache-airflow-providers-standard",
    "google.api_core": "google-api-core",
    "google.auth": "google-auth",
    "google.cloud.bigquery": "google-cloud-bigquery",
    "google.cloud.logging_v2": "google-cloud-logging",
    "google.cloud.monitoring_v3": "google-cloud-monitoring",
    "google.cloud.secretmanager_v1": "google-cloud-secret-manager",
    "google.protobuf": "protobuf",
    "opentelemetry": "opentelemetry-api",
    "opentelemetry.sdk": "opentelemetry-sdk",
}
"""The distributions of modules in namespaces that several share."""
OF_AIRFLOW = {
    "fastapi": "apache-airflow-core",
    "starlette": "fastapi",
    "kubernetes": "apache-airflow-providers-cncf-kubernetes",
}
"""What Airflow requires in a range of its own: stated again, it would let an installer go back to an older Airflow."""
NOT_IMPORTED = {"gcsfs": "fsspec imports it for gs://", "psycopg": "SQLAlchemy imports it"}
COMPOSER = {
    "apache-airflow": "3.3.1+composer",
    "apache-airflow-providers-cncf-kubernetes": "10.14.0",
    "apache-airflow-providers-google": "22.1.0",
}
WHERE_REQUIRED = {
    "alerts/channels/sendgrid.py": "airflow/channels.py",
    "measure/cloud/memory.py": "measure/cloud/monitoring.py",
    "measure/readers/xprof_program.py": "measure/readers/xprof.py",
    "config/jsonnet_worker.py": "config/jsonnet.py",
    "airflow/operators/gke.py": "airflow/operators/chosen_operator.py",
    "warehouse/bigquery.py": "warehouse/warehouse.py",
}
"""Modules that import a package of an extra after another module has required it."""


def imported(tree: ast.AST) -> Iterator[str]:
    """Yield the full name of each module, or name in a module, that is imported, also by `import_module`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = getattr(node.func, "id", "") or getattr(node.func, "attr", "")
            if called == "import_module" and isinstance(node.args[0].value, str):
                yield node.args[0].value


def distribution_of(module: str) -> str:
    """Return the distribution that brings a module."""
    known = [name for name in MODULES if f"{module}.".startswith(f"{name}.")]
    if known:
        return MODULES[max(known, key=len)]
    top = module.partition(".")[0]
    return DISTRIBUTIONS.get(top, name_of(top))


def name_of(requirement: str) -> str:
    return re.split(r"[\s<>=!~;\[]", requirement, maxsplit=1)[0].lower().replace("_", "-").replace(".", "-")


@cache
def third_party() -> dict[str, frozenset[str]]:
    """Return the distributions that each module of the package imports."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        names = set(imported(syntax_of(path.read_bytes())))
        ours = {"ml_metrics", *sys.stdlib_module_names}
        others = {distribution_of(name) for name in names if name.partition(".")[0] not in ours}
        found[path.relative_to(PACKAGE).as_posix()] = frozenset(others)
    return found


BASE = {name_of(line) for line in TABLE["dependencies"]}
EXTRA_LINES = [line for lines in TABLE["optional-dependencies"].values() for line in lines]
OPTIONAL = {extra: {name_of(line) for line in lines} for extra, lines in TABLE["optional-dependencies"].items()}


def test_every_import_is_declared() -> None:
    declared = BASE.union(*OPTIONAL.values())
    assert set().union(*third_party().values()) - declared == OF_AIRFLOW.keys()
    for name, owner in OF_AIRFLOW.items():
        assert name in {name_of(line) for line in requires(owner) or ()}


def test_nothing_is_declared_that_is_not_imported() -> None:
    used = set().union(*third_party().values())
    alone = {"scikit-learn", "airflow-provider-ml-metrics"}  # the example workload imports it; an extra of extras
    assert BASE - used == set()
    assert set().union(*OPTIONAL.values()) - used - alone - NOT_IMPORTED.keys() == set()


def test_the_package_of_an_extra_is_required_before_its_import() -> None:
    """Otherwise a run would end with a ModuleNotFoundError, which names no extra."""
    optional = set().union(*OPTIONAL.values()) - BASE
    unguarded = []
    for file, distributions in third_party().items():
        source = (PACKAGE / WHERE_REQUIRED.get(file, file)).read_text()
        if distributions & optional and not re.search(r"\b(require|advice|NOT_INSTALLED)\b", source):
            unguarded.append((file, distributions & optional))
    assert unguarded == []


def test_composer_keeps_its_versions() -> None:
    """Of its image of August 2026. An install of the wheel there changes nothing that Airflow itself needs."""
    lines = {name_of(line): Requirement(line) for line in [*TABLE["dependencies"], *EXTRA_LINES]}
    assert [name for name, version in COMPOSER.items() if not lines[name].specifier.contains(version)] == []


def test_an_extra_has_one_name() -> None:
    assert set(EXTRAS) == set(OPTIONAL)


@pytest.mark.parametrize("line", [*TABLE["dependencies"], *EXTRA_LINES])
def test_the_locked_version_is_in_the_range(line: str) -> None:
    wanted = Requirement(line)
    locked = {
        name_of(name): version
        for file in ("requirements.lock", "requirements-dev.lock")
        for name, version in LINES.findall((PROJECT / "requirements" / file).read_text())
    }
    if wanted.name == "local-kube" or "ml-metrics" in wanted.name:  # of this project
        return
    assert wanted.specifier.contains(locked[name_of(wanted.name)]), f"{line}: {locked[name_of(wanted.name)]} is locked"
    assert ">=" in str(wanted.specifier), f"{line}: which is the oldest version that was tested?"
