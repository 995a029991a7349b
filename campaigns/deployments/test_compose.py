"""docker-compose.yaml, checked without a Docker engine."""

from __future__ import annotations

import json
import re
import shutil
import stat
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from cryptography.fernet import Fernet

from missing import missing
from servers.compose import make_databases
from servers.compose_file import FILE, PROJECT, UnsetError, load, new_env
from servers.engines import postgres  # noqa: F401  (a fixture)
from servers.postgres import PostgresServer

AIRFLOW = ("airflow-apiserver", "airflow-scheduler", "airflow-dag-processor", "airflow-triggerer")
WORKERS = ("airflow-worker-1", "airflow-worker-2")
SECRETS = (
    "POSTGRES_PASSWORD",
    "AIRFLOW_DB_PASSWORD",
    "ML_METRICS_DB_PASSWORD",
    "REDIS_PASSWORD",
    "AIRFLOW_JWT_SECRET",
    "AIRFLOW_API_SECRET_KEY",
    "AIRFLOW_FERNET_KEY",
    "ADMIN_PASSWORD",
)
ONE_SHOT = {"airflow-init", "k3s-kubeconfig", "local-kubeconfig"}
WORKLOADS = "50001:0"
"""The user of workloads, whose group lets Airflow read what they write."""


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return new_env(tmp_path_factory.mktemp("env") / "project")


@pytest.fixture(scope="module")
def services(env: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = load(env)["services"]
    return found


def test_secrets_are_new_each_time_and_readable_only_by_their_owner(env: dict[str, str], tmp_path: Path) -> None:
    other = new_env(tmp_path / "project")
    for name in SECRETS:
        assert len(env[name]) >= 24
        assert env[name] != other[name]
    Fernet(env["AIRFLOW_FERNET_KEY"])
    assert all(env[name].isalnum() for name in SECRETS if name.endswith(("DB_PASSWORD", "POSTGRES_PASSWORD")))
    assert stat.S_IMODE((tmp_path / "project" / ".env").stat().st_mode) == 0o600
    again = subprocess.run(["sh", "deploy/make-env.sh"], cwd=tmp_path / "project", capture_output=True, check=True)
    assert b"not changed" in again.stderr
    assert other["ADMIN_PASSWORD"] in (tmp_path / "project" / ".env").read_text()


def test_the_tasks_at_once_suit_the_machine_of_the_containers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Docker Desktop gives its containers a part of the laptop."""
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text("#!/bin/sh\necho 8 3670016000\n")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", str(docker.parent), prepend=":")
    env = new_env(tmp_path / "project")
    assert env["AIRFLOW_PARALLELISM"] == "5", "32 for the cores, but memory for five"
    assert load(env)["x-airflow-environment"]["AIRFLOW__CORE__PARALLELISM"] == "5"
    docker.write_text("#!/bin/sh\necho no daemon >&2\nexit 1\n")
    assert int(new_env(tmp_path / "other")["AIRFLOW_PARALLELISM"]) >= 2, "that of this machine"


@pytest.mark.parametrize("name", SECRETS)
def test_an_unset_secret_is_reported_by_name(name: str, env: dict[str, str]) -> None:
    with pytest.raises(UnsetError, match=f"{name} is not set; sh deploy/make-env.sh"):
        load({**env, name: ""})


def test_every_part_of_a_server_is_a_service(services: dict[str, Any]) -> None:
    assert {"postgres", "mail", "airflow-init", "local-cluster", "k3s", *AIRFLOW} <= set(services)
    assert services["local-cluster"]["profiles"] == ["local"]
    assert services["k3s"]["profiles"] == services["k3s-kubeconfig"]["profiles"] == ["k3s"]


def test_every_permanent_service_has_a_health_check(services: dict[str, Any]) -> None:
    silent = {name for name, service in services.items() if "healthcheck" not in service}
    assert silent == {*ONE_SHOT, "loopback"}


def test_no_service_runs_as_root_except_the_node_of_k3s(services: dict[str, Any]) -> None:
    for name, service in services.items():
        if name == "k3s":
            continue
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert "privileged" not in service, name
        own = WORKLOADS if name == "local-cluster" else "50000:0"
        assert name == "postgres" or service["user"] == own, name


def test_no_service_writes_into_its_image_or_takes_all_memory(services: dict[str, Any], env: dict[str, str]) -> None:
    """Paths that are written are volumes, or in memory."""
    for name, service in services.items():
        if name == "k3s":
            continue
        assert service["read_only"] is True, name
        assert service["tmpfs"][0].split(":")[0] == "/tmp", name
        assert re.fullmatch(r"\d+[mg]", service["mem_limit"]), name
    tasks = int(env["AIRFLOW_PARALLELISM"])
    assert services["airflow-scheduler"]["mem_limit"] == f"{300 * tasks + 1500}m", "its tasks, and itself"
    homes = [service["tmpfs"][1] for service in services.values() if service.get("image") == "ml-metrics:local"]
    assert set(homes) == {"/opt/airflow:uid=50000,gid=0,mode=0710"}, "airflow.cfg is written there"


def test_each_role_of_the_database_reaches_its_own(
    postgres: PostgresServer,  # noqa: F811
    env: dict[str, str],
    services: dict[str, Any],
) -> None:
    make_databases(postgres, env)
    for role, other in (("airflow", "ml_metrics"), ("ml_metrics", "airflow")):
        address = f"host=127.0.0.1 port={postgres.port} user={role} dbname="
        with psycopg.connect(address + role) as own:
            own.execute("CREATE TABLE its_own (a int)")
            (is_superuser,) = own.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").fetchone() or ()
            assert not is_superuser
        with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
            psycopg.connect(address + other)
    used = [text for name in (*AIRFLOW, *WORKERS) for text in services[name]["environment"].values()]
    assert not [text for text in used if env["POSTGRES_PASSWORD"] in text], "no service is the superuser"


def test_ports_are_open_only_to_this_machine(services: dict[str, Any]) -> None:
    ports = [port for service in services.values() for port in service.get("ports", [])]
    assert len(ports) == 2
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_mounts_exist_and_code_is_mounted_read_only(services: dict[str, Any], env: dict[str, str]) -> None:
    volumes = set(load(env)["volumes"])
    used = set()
    for service in services.values():
        for mount in service.get("volumes", []):
            source, target, *mode = mount.split(":")
            if source.startswith("./"):
                assert (PROJECT / source).exists(), mount
                assert mode == ["ro"], mount
            else:
                used.add(source)
                assert target.startswith("/"), mount
    assert used == volumes


def test_images_are_pinned_and_only_one_is_built(services: dict[str, Any]) -> None:
    for name, service in services.items():
        assert re.search(r":(v?\d|local$)", service["image"]), name
    built = [name for name, service in services.items() if "build" in service]
    assert built == ["airflow-init"]


def test_workloads_get_no_secret_of_airflow(services: dict[str, Any], env: dict[str, str]) -> None:
    cluster = yaml.safe_dump(services["local-cluster"])
    assert not [name for name in SECRETS if env[name] in cluster]
    assert "environment" not in services["local-cluster"]
    airflow_only = {"auth", "cluster", "logs", "outbox", "postgres"}
    assert not [mount for mount in services["local-cluster"]["volumes"] if mount.split(":")[0] in airflow_only]


def test_workloads_are_confined_or_do_not_run(services: dict[str, Any]) -> None:
    command = services["local-cluster"]["command"]
    assert {"--confine=require", "--hide=/opt/airflow"} <= set(command)


def test_airflow_reads_a_kubeconfig_that_no_workload_can_write(services: dict[str, Any]) -> None:
    kubeconfig = json.loads(services["airflow-scheduler"]["environment"]["AIRFLOW_CONN_KUBERNETES_DEFAULT"])
    assert kubeconfig["extra"]["kube_config_path"] == "/opt/airflow/cluster/kubeconfig"
    writers, readers = (
        {name for name, service in services.items() if mount in service.get("volumes", [])}
        for mount in ("cluster:/opt/airflow/cluster", "cluster:/opt/airflow/cluster:ro")
    )
    assert writers == {"local-kubeconfig", "k3s-kubeconfig"}
    assert readers == {"airflow-scheduler", "airflow-dag-processor", "airflow-triggerer", *WORKERS}
    for name in writers:
        assert services[name]["command"][2].startswith("umask 077; "), name


def test_the_local_cluster_shares_the_loopback_interface_of_its_clients(services: dict[str, Any]) -> None:
    together = {name for name, service in services.items() if service.get("network_mode") == "service:loopback"}
    assert together == {"airflow-scheduler", "airflow-triggerer", "local-cluster", *WORKERS}
    assert all("runs:/opt/airflow/runs" in services[name]["volumes"] for name in together)


def test_the_parts_of_airflow_share_secrets_and_wait_for_the_database(services: dict[str, Any]) -> None:
    for name in AIRFLOW:
        environment, waits = services[name]["environment"], services[name]["depends_on"]
        assert environment["AIRFLOW__API_AUTH__JWT_SECRET"]
        assert environment["AIRFLOW__API_AUTH__JWT_SECRET"] == services[AIRFLOW[0]]["environment"].get(
            "AIRFLOW__API_AUTH__JWT_SECRET"
        )
        assert waits["airflow-init"]["condition"] == "service_completed_successfully"
    for name in ("airflow-scheduler", "airflow-triggerer"):
        assert services[name]["depends_on"]["airflow-apiserver"]["condition"] == "service_healthy"


def test_the_image_contains_what_services_start(services: dict[str, Any]) -> None:
    dockerfile = (PROJECT / "Dockerfile").read_text()
    assert "USER 50000:0" in dockerfile
    requires = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert f"FROM python:{requires.removeprefix('>=')}-slim" in dockerfile
    assert "pip install --require-hashes -r requirements/requirements-uv.lock" in dockerfile
    assert "uv pip install --require-hashes --compile-bytecode -r requirements/requirements-compose.lock" in dockerfile
    context = (PROJECT / ".dockerignore").read_text().splitlines()
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):  # what builds the package
        assert re.search(rf"^COPY .*\b{re.escape(name)}\b", dockerfile, re.MULTILINE)
        assert f"!{name}" in context
    assert (
        "uv pip install --no-deps --no-build-isolation -e . -e packages/local-kube -e packages/telemetry" in dockerfile
    ), "the service local-cluster needs it"
    own = [mount.split(":") for service in services.values() for mount in service.get("volumes", [])]
    folders = {target.removeprefix("/opt/airflow/") for source, target, *_ in own if target.startswith("/opt/airflow/")}
    assert f"for folder in {' '.join(sorted(folders))}; do" in dockerfile
    for service in services.values():
        test = service.get("healthcheck", {}).get("test", [])
        for argument in (*service.get("command", []), *test):
            assert not argument.startswith("deploy/") or (PROJECT / argument).is_file(), argument


def test_docker_compose_accepts_the_file(env: dict[str, str], tmp_path: Path) -> None:
    program = shutil.which("docker-compose")
    if program is None:
        missing("docker-compose is not installed: apt-get install docker-compose")
    for folder in ("dags", "include", "plugins", "deploy"):
        (tmp_path / folder).mkdir()
    shutil.copy(FILE, tmp_path)

    def config(**variables: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / ".env").write_text("".join(f"{name}={value}\n" for name, value in variables.items()))
        command = [program, "-f", str(tmp_path / FILE.name), "config"]
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    for profile in ("local", "k3s", "local,celery"):
        done = config(**{**env, "COMPOSE_PROFILES": profile})
        assert done.returncode == 0, done.stderr
        accepted = yaml.safe_load(done.stdout)["services"]
        assert accepted["airflow-scheduler"]["environment"] == load(env)["services"]["airflow-scheduler"]["environment"]
    rejected = config(**{**env, "AIRFLOW_JWT_SECRET": ""})
    assert rejected.returncode != 0
    assert "AIRFLOW_JWT_SECRET is not set; sh deploy/make-env.sh" in rejected.stderr
