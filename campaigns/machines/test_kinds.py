"""Every kind of run, on machines that share nothing but a bucket, a database, a broker and a warehouse."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from campaigns.machines.conftest import WHOLE
from campaigns.machines.deployment import LAYOUTS, Deployment, Layout
from campaigns.machines.ends import left_in
from campaigns.machines.kinds import KINDS, Kind
from ml_metrics.core.model import Run
from ml_metrics.store.run_folder import RunFolder
from standalone_airflow import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from campaigns.machines.services import Services

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.campaign,
    pytest.mark.skipif(not WHOLE, reason="NOT RUN: minutes of Airflow; `make campaign NAME=machines`"),
]
LONGEST_RUN = 900
MESSAGE_SECONDS = 360
"""A sender runs every five minutes."""


@pytest.mark.parametrize("layout", LAYOUTS[:2], ids=lambda layout: layout.name)
def test_every_kind_of_run_ends_as_on_one_machine(layout: Layout, services: Services, tmp_path: Path) -> None:
    for trace in services.shared.iterdir():
        trace.unlink()
    # incidents are of a deployment: in one of its own, each broken test is news
    deployment = Deployment(layout, tmp_path / "airflow", services, name=f"kinds-{layout.name.replace(' ', '-')}")
    deployment.base.mkdir()
    try:
        deployment.start([content(kind, deployment) for kind in KINDS])
        runs = {}
        for kind in KINDS:
            deployment.api.unpause(kind.name)
            runs[kind.name] = deployment.api.trigger(kind.name, kind.conf)
        wrong = {kind.name: problems(deployment, kind, runs[kind.name]) for kind in KINDS}
    finally:
        deployment.stop()
    assert {name: found for name, found in wrong.items() if found} == {}


def content(kind: Kind, deployment: Deployment) -> dict[str, object]:
    """Return the content of a test file."""
    shared = str(deployment.services.shared)
    command = [part.replace("{shared!r}", repr(shared)) for part in kind.content["command"]]
    env = {**deployment.cloud(), **kind.content.get("env", {})}
    common = {"name": kind.name, "image": "local/image:1", "owner": f"owner-of-{kind.name}", "timeout": "5m"}
    return {**common, "emails": ["a@example.com"], **kind.content, "command": command, "env": env}


def problems(deployment: Deployment, kind: Kind, run_id: str) -> list[str]:
    """Return what is not as it should be about the run of one kind."""
    run = Run(kind.name, kind.name, run_id, deployment.name)
    found = []
    state = deployment.api.wait_until_ended(kind.name, run_id, LONGEST_RUN)
    if state != kind.state:
        found.append(f"{state} instead of {kind.state}")
    workload = RunFolder(RunFolder.of(run, deployment.runs).path, believe_unsigned=True).read_workload()
    assert workload is not None, kind.name
    if workload.status != kind.status or workload.failure_reason not in kind.reasons:
        found.append(f"{workload.status} {workload.failure_reason} ({workload.detail})")
    if workload.attempts != kind.attempts:
        found.append(f"{workload.attempts} attempts")
    with deployment.services.warehouse.open(deployment.name) as warehouse:
        rows = [row for row in warehouse.runs.newest(kind.name, trials=True) if row.uuid == run.key]
        metrics = {row.metric for row in warehouse.metrics.of_run(run.key)}
    ends = [(row.job_status, row.failure_reason, row.verdict) for row in rows]
    if ends != [(kind.status, workload.failure_reason, kind.verdict)]:
        found.append(f"rows {ends}")
    if missing := set(kind.metrics) - metrics:
        found.append(f"no metrics {missing}")
    taken = deployment.services.mail.ledger.taken

    def messages() -> list[str]:
        return [one.key for one in taken if one.key.startswith(run.key)]

    wait_until(lambda: len(messages()) >= kind.messages, f"{kind.name} is reported", MESSAGE_SECONDS)
    if len(messages()) != kind.messages:
        found.append(f"{messages()} instead of {kind.messages} messages")
    return [*found, *left_in(deployment, kind.name)]
