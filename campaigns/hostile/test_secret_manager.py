"""A whole run whose connections and keys are in Google's Secret Manager, through Airflow's secrets backend."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import grpc
import pytest

from airflow_home import Home
from campaigns.hostile.night.canaries import CANARIES, forms, seen_below, seen_in
from campaigns.hostile.night.services import connections, server
from ml_metrics.store.run_folder import RunFolder
from ml_metrics.warehouse import open_warehouse
from servers.secret_manager import SecretManager

pytestmark = pytest.mark.e2e
OWN_FILES = ("airflow.cfg", "airflow.db", "airflow.db-wal", "airflow.db-shm")
BACKEND = {
    "AIRFLOW__SECRETS__BACKEND": "airflow.providers.google.cloud.secrets.secret_manager.CloudSecretManagerBackend",
    "AIRFLOW__SECRETS__BACKEND_KWARGS": json.dumps(
        {
            "connections_prefix": "airflow-connections",
            "variables_prefix": "airflow-variables",
            "sep": "-",
        }
    ),
    "AIRFLOW__ML_METRICS__DOCUMENTS_KEY_SECRET": "documents-key",
    "AIRFLOW__ML_METRICS__CHANNELS": "outbox, sendgrid, webhook",
    "AIRFLOW__LOGGING__LOGGING_LEVEL": "DEBUG",
}
"""As deploy/composer.sh sets it, with the most talkative log."""
COMMANDS = (("history", "secretive"), ("messages", "--send"), ("messages",), ("alerts",), ("schema",))


def commands(home: Home, more: dict[str, str]) -> dict[str, str]:
    found = {}
    for arguments in COMMANDS:
        done = subprocess.run(
            ["ml-metrics", *arguments, "--warehouse", "airflow"],
            env={**home.environment, **more},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        found[" ".join(arguments)] = done.stdout + done.stderr
    return found


def test_secrets_are_used_and_seen_nowhere(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = tmp_path / "rows.db"
    with server("500 that repeats the request") as services:
        known = connections(services.port)
        warehouse = {"conn_type": "sqlite", "host": str(rows), "password": CANARIES["warehouse"]}
        manager = SecretManager(
            {
                "airflow-connections-ml_metrics_warehouse": json.dumps(warehouse),
                "airflow-connections-sendgrid_default": json.dumps(known["sendgrid_default"]),
                "airflow-connections-ml_metrics_webhook": json.dumps(known["ml_metrics_webhook"]),
                "airflow-variables-alert-destination-email-address": "team@example.com",
                "airflow-config-documents-key": CANARIES["documents"],
            }
        )
        home.add_test("secretive", command=["sh", "-c", "env; exit 3"])
        with manager.served(tmp_path) as variables:
            environment = {**BACKEND, **variables}
            done = home.airflow("dags", "test", "secretive", **environment)
            outputs = {"dags test": done.stdout + done.stderr, **commands(home, environment)}
    assert manager.secrets.keys() <= set(manager.asked)
    assert manager.elsewhere == [], "no other service of Google is asked"
    received = services.received.decode(errors="replace")
    used = {place for place in ("sendgrid", "webhook") if any(form in received for form in forms(CANARIES[place]))}
    assert used == {"sendgrid", "webhook"}
    (mail,) = home.mails("secretive")
    assert "To: team@example.com" in mail.read_text()
    with open_warehouse(f"sqlite:///{rows}") as opened:
        (run,) = opened.runs.newest("secretive")
    folder = RunFolder(f"{home.runs}/secretive/{run.uuid}")
    monkeypatch.setenv("AIRFLOW__ML_METRICS__DOCUMENTS_KEY", CANARIES["documents"])
    assert folder.read("gate") is not None, "documents are signed with the key of the backend"
    for token in manager.tokens:
        assert token.removeprefix("Bearer ") not in "".join(outputs.values())
    seen = [one for output, text in outputs.items() for one in seen_in(output, text)]
    seen += [*seen_below(home.path, apart_from=OWN_FILES), *seen_in("rows", rows.read_bytes().decode(errors="replace"))]
    assert not seen, "\n".join(seen[:20])


@pytest.mark.parametrize("status", [grpc.StatusCode.INTERNAL, grpc.StatusCode.PERMISSION_DENIED])
def test_a_backend_that_fails_shows_nothing_and_loses_no_row(
    status: grpc.StatusCode, home: Home, tmp_path: Path
) -> None:
    """On Composer, rows would otherwise go to a file on the disk of one worker."""
    manager = SecretManager({"airflow-connections-ml_metrics_warehouse": "{}"}, fails=status)
    composer = {"COMPOSER_ENVIRONMENT": "nightly", "AIRFLOW__ML_METRICS__DOCUMENTS_KEY": CANARIES["documents"]}
    with manager.served(tmp_path) as variables:
        environment = {**BACKEND, **variables, **composer}
        done = subprocess.run(
            ["ml-metrics", "history", "secretive", "--warehouse", "airflow"],
            env={**home.environment, **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    assert done.returncode == 2
    assert "connection `ml_metrics_warehouse`" in done.stderr
    assert "cannot be read or is not defined" in done.stderr
    assert not list(seen_in("output", done.stdout + done.stderr))
