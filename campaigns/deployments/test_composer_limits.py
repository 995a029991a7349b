"""What the service refuses, as its documentation says it, and deploy/composer.sh against a `gcloud` that refuses it.

Each row of MISTAKES is one sentence of a page, read on 29 November 2026.
"""

from __future__ import annotations

import json
import re
import subprocess

import pytest

from campaigns.deployments.conftest import WHERE, Cloud
from deploy_programs import program

DOCS = "https://docs.cloud.google.com/composer/docs"
OPTIONS = f"{DOCS}/airflow-configurations"
"""It listed Airflow 3.1.7; OLDER is what it listed for Airflow 2."""
OLDER = "https://cloud.google.com/composer/docs/concepts/airflow-configurations"
UPDATES = f"{DOCS}/composer-3/update-environments"
VARIABLES = f"{DOCS}/composer-3/set-environment-variables"
PACKAGES = f"{DOCS}/composer-3/install-python-dependencies"
GCLOUD = "https://cloud.google.com/sdk/gcloud/reference/composer/environments/update"

SETTINGS = {
    OPTIONS: """core-min_file_process_interval=29 dag_processor-min_file_process_interval=0
        core-dag_file_processor_timeout=601 dag_processor-dag_file_processor_timeout=601 core-dagbag_import_timeout=601
        core-dagbag_import_timeout=120|dag_processor-dag_file_processor_timeout=180
        core-dagbag_import_timeout=59|core-dag_file_processor_timeout=60
        celery-worker_concurrency=0 celery-worker_concurrency=25 celery-worker_concurrency=32
        kubernetes_executor-worker_pods_queued_check_interval=29
        kubernetes_executor-worker_pods_queued_check_interval=61
        scheduler-scheduler_heartbeat_sec=5 scheduler-scheduler_heartbeat_sec=14
        scheduler-scheduler_health_check_threshold=39|scheduler-scheduler_heartbeat_sec=20
        triggerer-job_heartbeat_sec=5 triggerer-triggerer_health_check_threshold=29
        triggerer-triggerer_health_check_threshold=59|triggerer-job_heartbeat_sec=30
        cli-endpoint_url=x cli-api_client=x api_auth-jwt_algorithm=x api_auth-jwt_audience=x api_auth-jwt_issuer=x
        api_auth-jwt_kid=x api_auth-jwt_private_key_path=x api_auth-jwt_secret=x api_auth-trusted_jwks_url=x
        dag_processor-dag_bundle_storage_path=x dag_processor-dag_bundle_config_list=x execution_api-jwt_audience=x
        execution_api-jwt_expiration_time=60""",
    OLDER: """core-dags_folder=/x core-fernet_key=x core-plugins_folder=/x core-load_examples=True celery-broker_url=x
        celery-celery_app_name=x celery-default_queue=x celery-pool=solo celery-result_backend=x
        celery-worker_log_server_port=1 database-sql_alchemy_conn=x database-sql_alchemy_pool_size=9
        database-sql_alchemy_pool_recycle=9 database-alembic_ini_file_path=x kubernetes-namespace=x
        kubernetes-pod_template_file=x operators-default_queue=x smtp-smtp_password=x""",
}
CONFIGS, VARIABLE, PACKAGE = "--update-airflow-configs", "--update-env-variables", "--update-pypi-package"
MISTAKES: list[tuple[str, tuple[str, ...]]] = [
    *((page, (CONFIGS, f"^|^{setting}")) for page, settings in SETTINGS.items() for setting in settings.split()),
    (GCLOUD, (CONFIGS, "^|^core-parallelism=9", PACKAGE, "gojsonnet==0.22.0")),
    (GCLOUD, (CONFIGS, "^|^core-parallelism=9", VARIABLE, "TEAM=x")),
    (GCLOUD, (PACKAGE, "gojsonnet==0.22.0", VARIABLE, "TEAM=x")),
    (GCLOUD, ()),
    (VARIABLES, (VARIABLE, "1TEAM=x")),
    (VARIABLES, (VARIABLE, "MY-TEAM=x")),
    (VARIABLES, (VARIABLE, "AIRFLOW__ML_METRICS__CHANNELS=outbox")),
    *((VARIABLES, (VARIABLE, f"{name}=x")) for name in ("AIRFLOW_HOME", "COMPOSER_ENVIRONMENT", "DAGS_FOLDER", "PATH")),
    (PACKAGES, (PACKAGE, "GoJsonnet==0.22.0")),
    (PACKAGES, (PACKAGE, "gojsonnet 0.22.0")),
]


def gcloud(cloud: Cloud, *options: str) -> subprocess.CompletedProcess[str]:
    where = ("--location", "us-central1", "--project", "my-project")
    command = [str(cloud.folder / "bin" / "gcloud"), "composer", "environments", "update", "nightly", *where]
    environment = {"PATH": "/usr/bin:/bin", "FAKE_GCLOUD": str(cloud.folder)}
    return subprocess.run([*command, *options], env=environment, capture_output=True, text=True, check=False)


def test_the_stand_in_refuses_each_documented_mistake(cloud: Cloud) -> None:
    assert len(MISTAKES) >= 40
    accepted = [row for row in MISTAKES if not gcloud(cloud, *row[1]).returncode]
    assert accepted == []
    assert not (cloud.folder / "software.json").exists(), "nothing was changed by halves"
    right = (
        "^|^core-dagbag_import_timeout=180|dag_processor-dag_file_processor_timeout=180|celery-worker_concurrency=24"
    )
    assert gcloud(cloud, CONFIGS, right).returncode == 0


@pytest.mark.parametrize("setting", [one for text in SETTINGS.values() for one in text.split()])
def test_a_dry_run_knows_each_refused_setting(setting: str) -> None:
    found = program("composer_limits").refused(dict(pair.split("=") for pair in setting.split("|")))
    assert found[0].startswith(setting.partition("=")[0])


@pytest.mark.parametrize(
    ("chosen", "parse", "imports"),
    [
        ({}, 180, 180),
        ({"core-dagbag_import_timeout": "100"}, 100, 100),
        ({"core-dagbag_import_timeout": "400"}, 180, 400),
        ({"dag_processor-dag_file_processor_timeout": "300"}, 300, 300),
        ({"dag_processor-dag_file_processor_timeout": "60"}, 60, 180),
        ({"core-dag_file_processor_timeout": "600"}, 600, 600),
    ],
)
def test_time_for_imports_is_at_least_that_of_a_file_whatever_somebody_has_chosen(
    chosen: dict[str, str],
    parse: int,
    imports: int,
    cloud: Cloud,
) -> None:
    cloud.write(**{"software.json": json.dumps({"airflowConfigOverrides": chosen})})
    done = cloud.deploy(*WHERE, "--dry-run")
    assert done.returncode == 0, done.stderr
    found = chosen | dict(
        line.strip().split("=", 1) for line in done.stdout.splitlines() if re.match("  [a-z_]+-", line)
    )
    section = "core" if "core-dag_file_processor_timeout" in chosen else "dag_processor"
    assert found[f"{section}-dag_file_processor_timeout"] == str(parse)
    assert found["core-dagbag_import_timeout"] == str(imports)


@pytest.mark.parametrize("worker", [{"cpu": 32, "memoryGb": 256}, {"cpu": 0.5, "memoryGb": 1}])
def test_the_tasks_of_a_worker_of_any_size_are_accepted(worker: dict[str, float], cloud: Cloud) -> None:
    cloud.write(worker=json.dumps(worker))
    assert cloud.deploy(*WHERE).returncode == 0
    assert cloud.software["airflowConfigOverrides"]["celery-worker_concurrency"] in ("24", "2")


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_what_would_be_refused_is_told_before_anything_changes(dry: tuple[str, ...], cloud: Cloud) -> None:
    chosen = {"celery-worker_concurrency": "32", "core-fernet_key": "x"}
    cloud.write(**{"software.json": json.dumps({"airflowConfigOverrides": chosen})})
    done = cloud.deploy(*WHERE, *dry)
    assert done.returncode == 2
    assert "celery-worker_concurrency=32: must be at most 24" in done.stderr
    assert "core-fernet_key: the service does not let it be set" in done.stderr
    assert cloud.changes() == []


def test_an_environment_that_is_being_updated_takes_only_files(cloud: Cloud) -> None:
    cloud.write(state="UPDATING")
    done = cloud.deploy(*WHERE)
    assert (done.returncode, cloud.changes()) == (2, [])
    assert "is UPDATING, and takes one update at a time" in done.stderr
    assert cloud.deploy(*WHERE, "--files-only").returncode == 0


@pytest.mark.parametrize(
    ("permission", "message"),
    [
        ("composer.environments.get", "the environment 'nightly' cannot be read"),
        ("composer.environments.update", "packages were not changed, and nothing else"),
        ("storage.objects.create", "not all files were copied"),
        ("storage.objects.delete", "not all files were copied"),
    ],
)
def test_without_a_role_the_deployment_stops_and_says_where(permission: str, message: str, cloud: Cloud) -> None:
    cloud.write(denied=permission)
    done = cloud.deploy(*WHERE)
    assert done.returncode != 0
    assert message in done.stderr
    assert permission in done.stderr


FIRST_FILES, LAST = 3, 11


@pytest.mark.parametrize("step", [1, 2, FIRST_FILES, LAST])
def test_a_deployment_that_fails_at_a_step_is_finished_by_the_next(step: int, cloud: Cloud) -> None:
    cloud.write(fails=str(step), **{"software.json": json.dumps({"pypiPackages": {"theirs": "==1"}})})
    done = cloud.deploy(*WHERE)
    assert done.returncode != 0
    assert "run this again, which goes on where it stopped" in done.stderr
    changed = [call[:3] for call in cloud.changes()]
    again = cloud.deploy(*WHERE)
    assert again.returncode == 0, again.stderr
    updates = [call for call in (*changed, *cloud.changes()) if call[:2] == ["composer", "environments"]]
    assert len(updates) == (3 if step < FIRST_FILES else 2), "what was done is not done again"
    assert cloud.software["pypiPackages"]["theirs"] == "==1", "packages of others stay"
    assert "packages: up to date\nsettings: up to date\n" in cloud.deploy(*WHERE, "--dry-run").stdout
    assert (cloud.bucket / "dags" / "ml_metrics" / "__init__.py").exists()


def test_a_package_that_conflicts_changes_nothing(cloud: Cloud) -> None:
    cloud.write(conflict="gojsonnet==0.22.0")
    done = cloud.deploy(*WHERE)
    assert "packages were not changed, and nothing else" in done.stderr
    assert not (cloud.folder / "software.json").exists()
    assert not cloud.bucket.exists()
