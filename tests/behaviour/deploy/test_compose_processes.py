"""Every process of docker-compose.yaml, run here: what the containers would do, without the containers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING

import httpx
import psycopg
import pytest

from behaviour.deploy.compose import new_env
from behaviour.standalone import Standalone
from servers.compose import add_test, server

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.e2e]
STAYS = ("airflow-apiserver", "airflow-scheduler", "airflow-dag-processor", "airflow-triggerer", "local-cluster")


def test_a_server_runs_tests_keeps_rows_and_sends_mail(tmp_path: Path) -> None:
    env = new_env(tmp_path / "project")
    configs = tmp_path / "configs"
    well = add_test(configs, "well-cpu", command=["python3", "-c", "print('hello')"], emails=["a@b.org"])
    ill = add_test(configs, "ill-cpu", command=["sh", "-c", "exit 3"], emails=["a@b.org"])
    with ExitStack() as stack:
        found = stack.enter_context(server(tmp_path, env, configs))
        login = {"username": "admin", "password": env["ADMIN_PASSWORD"]}
        token = httpx.post(f"{found.url}/auth/token", json=login, timeout=60).raise_for_status().json()["access_token"]
        airflow = Standalone(found.url, token, process=None)  # type: ignore[arg-type]
        stack.callback(airflow.client.close)
        for test in (well, ill):
            airflow.unpause(test)
        runs = {test: airflow.trigger(test) for test in (well, ill)}
        assert airflow.ended(well, runs[well]) == "success"
        assert airflow.ended(ill, runs[ill]) == "failed"
        with ThreadPoolExecutor() as threads:
            assert dict(zip(STAYS, threads.map(found.healthy, STAYS), strict=True)) == dict.fromkeys(STAYS, True)
        address = found.environment("airflow-scheduler")["AIRFLOW_CONN_ML_METRICS_WAREHOUSE"]
        with psycopg.connect(address.replace("postgres://", "postgresql://")) as warehouse:
            rows = warehouse.execute("SELECT test_name, job_status, failure_reason FROM job_history").fetchall()
        assert sorted(rows) == [(ill, "failure", "ExitCode:3"), (well, "success", None)]
        (mail,) = [path.read_text() for path in (tmp_path / "mails" / "new").iterdir()]
        assert ill in mail
        assert "To: a@b.org" in mail
    assert not found.healthy("airflow-apiserver")
