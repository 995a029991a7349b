"""No decided message is lost, none is doubled: faults that hang, and `kill -9`, under Airflow's own supervisor.

`make campaign NAME=messages` plays everything, a part of it with `ML_METRICS_MESSAGES_RUNS=2`. See docs/alerts.md.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from campaigns.messages.campaign import play_wave
from campaigns.messages.deployment import Deployment, Pace, seeded
from campaigns.messages.faults import PLANS, SMALL_DISK_KILOBYTES, FaultPlan
from campaigns.messages.mail_servers import Ledger, MailServer, SendGridServer
from campaigns.messages.outcome import Outcome, table
from campaigns.messages.processes import Host
from campaigns.messages.warehouses import BigQuery, HangingProxy, Postgres, SqliteFile, WarehouseServer
from missing import missing
from servers.bigquery import BigQueryServer
from servers.engines import start_bigquery
from servers.faulty_proxy import Fault
from servers.postgres import start_postgres

RUNS = int(os.environ.get("ML_METRICS_MESSAGES_RUNS", "0"))
"""The number of runs for each fault in a wave."""
WAVES = int(os.environ.get("ML_METRICS_MESSAGES_WAVES", "1"))
SEED = int(os.environ.get("ML_METRICS_MESSAGES_SEED", str(random.SystemRandom().randrange(10**6))))
ONLY = os.environ.get("ML_METRICS_MESSAGES_ONLY", "")
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.campaign,
    pytest.mark.skipif(not RUNS, reason="NOT RUN: minutes of hanging servers; `make campaign NAME=messages`"),
]
PACE = Pace(
    period=float(os.environ.get("ML_METRICS_MESSAGES_PERIOD", "60")),
    fault=float(os.environ.get("ML_METRICS_MESSAGES_FAULT", "60")),
)


@pytest.fixture(autouse=True)
def one_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each deployment has a home of its own, and this process writes documents for all of them."""
    monkeypatch.setenv("AIRFLOW__ML_METRICS__DOCUMENTS_KEY", "the key of every deployment here")


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    started = Host.start(tmp_path)
    yield started
    started.stop()


@pytest.fixture
def bigquery() -> Iterator[BigQueryServer | None]:
    if not any("bigquery" in plan.warehouse for plan in plans()):
        yield None
        return
    server = start_bigquery()
    yield server
    server.stop()


def test_no_decided_message_is_lost_or_doubled(host: Host, bigquery: BigQueryServer | None, tmp_path: Path) -> None:
    deployments = [deployment_of(plan, host, bigquery, tmp_path) for plan in plans()]
    with ThreadPoolExecutor(len(deployments)) as threads:
        outcomes = list(threads.map(play, plans(), deployments))
    for deployment in deployments:
        deployment.mail.stop()
        deployment.warehouse.stop()
    print(f"\nseed {SEED}\n{table(outcomes)}")
    assert {one.fault: one.problems for one in outcomes if one.problems} == {}, f"seed {SEED}, in {tmp_path}"


def play(plan: FaultPlan, deployment: Deployment) -> Outcome:
    chance = seeded(SEED, plan.name)
    total = Outcome(plan.name)
    share = 1 if plan.slower == 1.0 else 2
    for _ in range(max(1, WAVES // share)):
        total.add(play_wave(deployment, plan, max(1, RUNS // share), chance))
    return total


def plans() -> list[FaultPlan]:
    return [plan for plan in PLANS if re.search(ONLY, plan.name)]


def deployment_of(plan: FaultPlan, host: Host, bigquery: BigQueryServer | None, folder: Path) -> Deployment:
    name = re.sub(r"\W+", "-", plan.name).strip("-").lower()
    own = folder / name
    (own / "runs").mkdir(parents=True)
    if plan.small_disk:
        if not host.can_mount:
            missing("a small file system cannot be mounted here: it needs root, or user namespaces")
        host.mount(own / "runs", SMALL_DISK_KILOBYTES)
    ledger = Ledger()
    mail = MailServer(ledger) if plan.channel == "smtp" else SendGridServer(ledger)
    pace = replace(PACE, period=PACE.period * plan.slower)
    constants = {constant: seconds * pace.period / PERIOD for constant, seconds in SCALED.items()}
    made = Deployment(name, own, host, warehouse_of(plan, bigquery, own), mail, ledger, pace, constants)
    ledger.is_durable = made.is_durable
    with made.warehouse.open(name) as warehouse:
        warehouse.ensure_schema()
    return made


PERIOD = 300.0
"""The period of the sender in a deployment, in seconds."""
SCALED = {
    "ml_metrics.alerts.outbox.adopt.CALLING_BACK": 60,
    "ml_metrics.alerts.outbox.attempt.FIRST_PAUSE": 60,
    "ml_metrics.alerts.outbox.attempt.MAX_PAUSE": 270,
    "ml_metrics.alerts.outbox.post.OWN_SECONDS": 45,
    "ml_metrics.alerts.outbox.sender.LATEST_START_SECONDS": 30,
    "ml_metrics.alerts.outbox.sender.PASS_SECONDS": 200,
    "ml_metrics.warehouse.messages.HOLD_OFF": 60,
    "ml_metrics.warehouse.messages.LEASE": 120,
}
"""The times of senders, in seconds: as much shorter in the campaign as their period. All others are real."""


def warehouse_of(plan: FaultPlan, bigquery: BigQueryServer | None, folder: Path) -> WarehouseServer:
    if plan.warehouse == "sqlite":
        return SqliteFile(folder / "warehouse.db")
    if plan.warehouse == "postgresql":
        server = start_postgres()
        return Postgres(server, server.new_database())
    assert bigquery is not None
    fault = Fault.BUSY if plan.warehouse == "bigquery-503" else None
    return BigQuery(bigquery, bigquery.new_dataset(keep=True), HangingProxy(bigquery.port), fault)
