"""deploy/composer.sh with a fake `gcloud` that records calls and copies files, and the deployed DAGs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ml_metrics.settings import Settings
from servers.compose_file import PROJECT

FAKE = PROJECT / "tests" / "servers" / "fake_gcloud.py"
WHERE = ("--environment", "nightly", "--location", "us-central1", "--storage-root", "gs://runs/of-tests")
PARSE = """\
import sys
from pathlib import Path
project, dags = sys.argv[1:]
# Composer's components have no checkout of this project, and some have no plugins
sys.path[:] = [place for place in sys.path if not place.startswith(project) or ".venv" in place]
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in str(finder)]
from airflow.dag_processing.dagbag import BundleDagBag
bag = BundleDagBag(dags, bundle_path=Path(dags), bundle_name="dags-folder")
import ml_metrics
print(Path(ml_metrics.__file__).parent)
print(*sorted(bag.dags), sep=",")
print(bag.import_errors)
"""


@dataclass
class Cloud:
    """A project with one Composer environment."""

    folder: Path

    def deploy(self, *options: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": f"{self.folder}/bin:/usr/bin:/bin", "FAKE_GCLOUD": str(self.folder)}
        command = ["bash", str(PROJECT / "deploy" / "composer.sh"), *options]
        return subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, check=False)

    @property
    def bucket(self) -> Path:
        return self.folder / "bucket"

    @property
    def software(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "software.json").read_text())
        return found

    def changes(self) -> list[list[str]]:
        """Return the calls that change something since the last call of this method."""
        calls = [json.loads(line) for line in (self.folder / "calls").read_text().splitlines()]
        (self.folder / "calls").write_text("")
        return [call for call in calls if "describe" not in call]


@pytest.fixture
def cloud(tmp_path: Path) -> Cloud:
    program = tmp_path / "bin" / "gcloud"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {FAKE} "$@"\n')
    program.chmod(0o755)
    return Cloud(tmp_path)


def test_the_first_deployment_changes_everything_and_the_second_only_files(cloud: Cloud) -> None:
    done = cloud.deploy(*WHERE, "--channels", "outbox,sendgrid")
    assert done.returncode == 0, done.stderr
    overrides = cloud.software["airflowConfigOverrides"]
    assert overrides["ml_metrics-storage_root"] == "gs://runs/of-tests"
    assert overrides["ml_metrics-channels"] == "outbox,sendgrid"
    assert overrides["ml_metrics-deployment"] == "nightly"
    assert overrides["secrets-backend"].endswith("CloudSecretManagerBackend")
    assert json.loads(overrides["secrets-backend_kwargs"])["connections_prefix"] == "airflow-connections"
    assert (cloud.bucket / "plugins" / "ml_metrics_plugin.py").exists()
    assert not list(cloud.bucket.rglob("local_kube")), "workloads run on Kubernetes there"
    assert sum(call[:2] == ["composer", "environments"] for call in cloud.changes()) == 2
    again = cloud.deploy(*WHERE, "--channels", "outbox,sendgrid")
    assert "packages: up to date\nsettings: up to date\n" in again.stdout
    assert {call[0] for call in cloud.changes()} == {"storage"}
    cloud.deploy(*WHERE, "--channels", "outbox")
    (changed,) = [call for call in cloud.changes() if call[0] == "composer"]
    assert changed[-1] == "^|^ml_metrics-channels=outbox"


def test_deployed_settings_are_settings_of_this_package(cloud: Cloud) -> None:
    cloud.deploy(*WHERE, "--set", "mails_per_hour=5")
    own = [name for name in cloud.software["airflowConfigOverrides"] if name.startswith("ml_metrics-")]
    assert "ml_metrics-mails_per_hour" in own
    assert {name.removeprefix("ml_metrics-") for name in own} <= set(Settings.__dataclass_fields__)


def test_files_of_others_in_the_bucket_stay_and_stale_files_of_ours_are_removed(cloud: Cloud) -> None:
    theirs = ["dags/airflow_monitoring.py", "dags/.airflowignore", "dags/include/theirs.sql", "plugins/theirs.py"]
    ours = ["dags/include/metric_configs/gone.yaml", "plugins/ml_metrics/gone.py"]
    for name in (*theirs, *ours):
        (cloud.bucket / name).parent.mkdir(parents=True, exist_ok=True)
        (cloud.bucket / name).touch()
    assert cloud.deploy(*WHERE, "--files-only").returncode == 0
    assert all((cloud.bucket / name).exists() for name in theirs)
    assert not any((cloud.bucket / name).exists() for name in ours)


def test_dags_are_parsed_without_plugins(cloud: Cloud, tmp_path: Path) -> None:
    assert cloud.deploy(*WHERE, "--files-only").returncode == 0
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "no-plugins").mkdir()
    dags = cloud.bucket / "dags"
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(tmp_path / "no-plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "COMPOSER_ENVIRONMENT": "nightly",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, "-c", PARSE, str(PROJECT), str(dags)]
    done = subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    package, found, errors = done.stdout.strip().splitlines()[-3:]
    assert package == str(dags / "ml_metrics")
    assert errors == "{}"
    assert {"py-mnist-example-cpu", "tf-mnist-example-cpu"} <= set(found.split(","))


def test_a_dry_run_changes_nothing(cloud: Cloud) -> None:
    done = cloud.deploy(*WHERE, "--dry-run")
    assert done.returncode == 0
    assert "would run: gcloud composer environments update nightly" in done.stdout
    assert cloud.changes() == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "--environment is missing"),
        (("--environment", "nightly"), "--location is missing"),
        (WHERE[:4], "must be a gs:// address"),
        ((*WHERE[:5], "/tmp/runs"), "must be a gs:// address"),
        ((*WHERE, "--set", "nothing"), "KEY=VALUE is needed"),
        ((*WHERE, "--colour"), "unknown option --colour"),
        (("--location",), "needs a value"),
    ],
)
def test_invalid_options_are_rejected_before_any_change(cloud: Cloud, options: tuple[str, ...], message: str) -> None:
    done = cloud.deploy(*options)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert not (cloud.folder / "calls").exists()


def test_help_and_roles_need_no_cloud(cloud: Cloud) -> None:
    assert "--storage-root URL" in cloud.deploy("--help").stdout
    roles = cloud.deploy("--roles").stdout
    assert re.search(r"^roles/secretmanager.secretAccessor \| the secrets \| to read ", roles, re.MULTILINE)
    page = (PROJECT / "docs" / "composer.md").read_text()
    for line in roles.splitlines():
        role, scope, why = line.split(" | ")
        assert f"| `{role}` | {scope} | {why} |" in page


def test_no_role_reads_the_secrets_of_a_cluster(cloud: Cloud) -> None:
    """`container.developer` and those above it do, in every cluster of a project; docs/kubernetes.md has a Role."""
    roles = set(re.findall(r"roles/container\.(\w+)", cloud.deploy("--roles").stdout))
    assert roles == {"clusterViewer"}
    page = (PROJECT / "docs" / "composer.md").read_text()
    assert "kubectl create rolebinding ml-metrics --namespace ml-metrics --role ml-metrics" in page
