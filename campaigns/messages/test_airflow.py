"""The same promise under a whole Airflow: `kill -9` of workers and scheduler while the mail server is silent."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import psutil
import pytest

from airflow_home import PROJECT, Home
from campaigns.messages.mail_servers import Ledger, MailServer, Mode, smtp_connection
from campaigns.messages.outcome import Decided, count, table
from ml_metrics.core.model import JobStatus, Run, Workload
from ml_metrics.store.run_folder import RunFolder
from standalone_airflow import Standalone, standalone, wait_until

RUNS = int(os.environ.get("ML_METRICS_MESSAGES_AIRFLOW_RUNS", "0"))
"""The number of runs, each of a test of its own."""
SEED = int(os.environ.get("ML_METRICS_MESSAGES_SEED", "1"))
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.campaign,
    pytest.mark.skipif(not RUNS, reason="NOT RUN: minutes of Airflow; `make campaign NAME=messages`"),
]
SILENT_SECONDS, PERIOD_SECONDS = 60.0, 60.0
RUN_ID = "campaign__1"
DAGS = f'''
"""DAGs with the last task of a test alone: the campaign writes what the tasks before it would leave."""
from airflow.sdk import DAG
from ml_metrics.config.definition import TestDefinition
from ml_metrics.airflow.callbacks import notify_run, post_run_message
from ml_metrics.pipeline.patience import retry_options
from ml_metrics.airflow.operators.tasks import AssertSuccess

for number in range({RUNS}):
    test = TestDefinition(
        name=f"red-{{number}}", owner="a-new-user", emails=("a@example.com",), image="i", command=("c",)
    )
    with DAG(test.name, schedule=None, is_paused_upon_creation=False) as dag:
        AssertSuccess(
            task_id="assert_success", test=test, post_message=post_run_message,
            on_failure_callback=notify_run, on_success_callback=notify_run,
            **{{**retry_options(), "retries": 2, "retry_delay": 1.0}},
        )
    globals()[test.name] = dag
'''


@pytest.fixture
def mail() -> Iterator[MailServer]:
    server = MailServer(Ledger())
    yield server
    server.stop()


@pytest.fixture
def airflow(tmp_path: Path, home: Home, mail: MailServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Standalone]:
    folder = tmp_path / "dags"
    folder.mkdir()
    (folder / "gates.py").write_text(DAGS)
    sender = (PROJECT / "dags" / "ml_messages.py").read_text()
    (folder / "ml_messages.py").write_text(sender)
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(folder))
    monkeypatch.setenv("AIRFLOW__ML_METRICS__CHANNELS", "smtp")
    monkeypatch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", json.dumps(smtp_connection(mail.port)))
    with standalone(home, heartbeat=10) as running:
        yield running


def test_a_silent_mail_server_and_kills_lose_nothing(airflow: Standalone, home: Home, mail: MailServer) -> None:
    chance = Random(f"{SEED} airflow")
    runs = [Run(f"red-{number}", f"red-{number}", RUN_ID, "local") for number in range(RUNS)]
    folders = {run.key: write_documents(run, home) for run in runs}
    mail.ledger.is_durable = lambda key: key in keys_in(folders[key[:36]])
    for run in runs:
        airflow.wait_until_parsed(run.dag_id)
    airflow.unpause("ml_messages")
    kills: list[tuple[float, str]] = []
    mail.mode, began = Mode.SILENT, time.time()
    for number, run in enumerate(runs):
        airflow.trigger(run.dag_id, run=RUN_ID)
        if number % 3 == 0:
            kill_gate_soon(airflow, run, chance.uniform(0.0, 3.0), kills)
        if number == RUNS // 2:
            airflow.kill_service("scheduler")
            kills.append((time.time(), "scheduler"))
    time.sleep(max(0.0, began + SILENT_SECONDS - time.time()))
    mail.mode, ended = Mode.WELL, time.time()
    deadline = time.time() + 2 * PERIOD_SECONDS + 120
    while time.time() < deadline and len({one.key for one in mail.ledger.taken}) < RUNS:
        send_now(airflow)
        time.sleep(PERIOD_SECONDS)
    for run in runs:
        assert airflow.wait_until_ended(run.dag_id, RUN_ID) == "failed"
    found = [Decided(key, at) for folder in folders.values() for key, at in keys_in(folder).items()]
    outcome = count(
        "Airflow: silent SMTP server, kill -9 of workers and scheduler",
        dict.fromkeys(folders, 1),
        found,
        mail.ledger.taken,
        kills=kills,
        fault_ended=ended,
        period=PERIOD_SECONDS,
    )
    print(f"\nseed {SEED}\n{table([outcome])}")
    assert outcome.problems == {}


def write_documents(run: Run, home: Home) -> RunFolder:
    folder = RunFolder.of(run, str(home.runs))
    now = datetime.now(UTC)
    with pytest.MonkeyPatch.context() as context:
        context.setenv("AIRFLOW_HOME", str(home.path))  # signed with the key of the Airflow that reads it
        folder.write_workload(
            Workload(JobStatus.FAILURE, "ExitCode:1", started_at=now - timedelta(minutes=1), ended_at=now)
        )
    return folder


def keys_in(folder: RunFolder) -> dict[str, float]:
    """Return the keys of a run's messages, and when each was written."""
    messages = Path(folder.path) / "_ml_metrics" / "messages"
    paths = [path for path in messages.glob("*.json") if not path.name.endswith(".sent.json")]
    return {f"{messages.parents[1].name}-{path.stem}": path.stat().st_mtime for path in paths}


def kill_gate_soon(airflow: Standalone, run: Run, seconds: float, kills: list[tuple[float, str]]) -> None:
    """kill -9 the gate so many seconds after it has a process."""

    def has_begun() -> bool:
        ended = airflow.run(run.dag_id, RUN_ID)["state"] in {"success", "failed"}
        return ended or airflow.process_of(run.dag_id, RUN_ID, "assert_success") is not None

    wait_until(has_begun, f"{run.dag_id} runs")
    time.sleep(seconds)
    if process := airflow.process_of(run.dag_id, RUN_ID, "assert_success"):
        with suppress(psutil.NoSuchProcess):
            process.kill()
            kills.append((time.time(), run.dag_id))


def send_now(airflow: Standalone) -> None:
    airflow.trigger("ml_messages")
