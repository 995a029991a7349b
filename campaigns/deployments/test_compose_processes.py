"""The processes of docker-compose.yaml, run without containers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING

import httpx
import psycopg
import pytest

from servers.compose import add_test, server
from servers.compose_file import new_env
from standalone_airflow import Standalone

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.e2e]
PERMANENT = ("airflow-apiserver", "airflow-scheduler", "airflow-dag-processor", "airflow-triggerer", "local-cluster")


def test_a_server_runs_tests_stores_rows_and_sends_mail(tmp_path: Path) -> None:
    env = new_env(tmp_path / "project")
    configs = tmp_path / "configs"
    passing = add_test(configs, "passing-cpu", command=["python3", "-c", "print('hello')"], emails=["a@b.org"])
    failing = add_test(configs, "failing-cpu", command=["sh", "-c", "sleep 5; exit 3"], emails=["a@b.org"])
    with ExitStack() as stack:
        found = stack.enter_context(server(tmp_path, env, configs))
        login = {"username": "admin", "password": env["ADMIN_PASSWORD"]}
        token = httpx.post(f"{found.url}/auth/token", json=login, timeout=60).raise_for_status().json()["access_token"]
        airflow = Standalone(found.url, token, process=None)  # type: ignore[arg-type]
        stack.callback(airflow.client.close)
        for test in (passing, failing):
            airflow.unpause(test)
        runs = {test: airflow.trigger(test) for test in (passing, failing)}
        assert airflow.wait_until_ended(passing, runs[passing]) == "success"
        assert airflow.wait_until_ended(failing, runs[failing]) == "failed"
        with ThreadPoolExecutor() as threads:
            assert dict(zip(PERMANENT, threads.map(found.healthy, PERMANENT), strict=True)) == dict.fromkeys(
                PERMANENT, True
            )
        address = found.environment("airflow-scheduler")["AIRFLOW_CONN_ML_METRICS_WAREHOUSE"]
        with psycopg.connect(address.replace("postgres://", "postgresql://")) as warehouse:
            rows = warehouse.execute("SELECT test_name, job_status, failure_reason FROM job_history").fetchall()
        assert sorted(rows) == [(failing, "failure", "ExitCode:3"), (passing, "success", None)]
        (mail,) = [path.read_text() for path in (tmp_path / "mails" / "new").iterdir()]
        assert failing in mail
        assert "To: a@b.org" in mail
    assert not found.healthy("airflow-apiserver")
