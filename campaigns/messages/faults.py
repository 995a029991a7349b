"""The faults of the campaign, each for a deployment of its own."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from campaigns.messages.deployment import Deployment, Kill
from campaigns.messages.mail_servers import Mode

SMALL_DISK_KILOBYTES = 4096


@dataclass(frozen=True)
class FaultPlan:
    """What fails, and what Airflow plays meanwhile."""

    name: str
    begin: Callable[[Deployment], None]
    end: Callable[[Deployment], None]
    channel: str = "smtp"
    warehouse: str = "sqlite"
    small_disk: bool = False
    slower: float = 1.0
    """By how much the period of the sender is longer: the stand-in of BigQuery takes seconds for what a pass asks.

    Such a plan plays half of the waves, each with half of the runs.
    """
    stories: bool = True
    """Whether some runs are cleared and end differently, which the warehouse must be there to notice."""
    kills: Callable[[random.Random, int], Kill | None] = lambda _chance, _number: None
    """Which process of a run is killed in its try 1, 2 or 3; 0 is the callback of its DAG."""
    sender_kill: Callable[[random.Random], Kill | None] = lambda _: None


def mode(channel: str, of_server: Mode, name: str) -> FaultPlan:
    def begin(deployment: Deployment) -> None:
        deployment.mail.mode = of_server

    def end(deployment: Deployment) -> None:
        deployment.mail.mode = Mode.WELL

    return FaultPlan(name, begin, end, channel)


def of_warehouse(warehouse: str, name: str) -> FaultPlan:
    return FaultPlan(
        name,
        lambda deployment: deployment.warehouse.fail(),
        lambda deployment: deployment.warehouse.recover(),
        warehouse=warehouse,
        slower=5.0 if warehouse.startswith("bigquery") else 1.0,
        stories=False,
    )


def delay(deployment: Deployment) -> None:
    """Answer slowly, so that processes are killed while they send."""
    deployment.mail.mode = Mode.DELAYED


def be_well(deployment: Deployment) -> None:
    deployment.mail.mode = Mode.WELL
    deployment.clock_seconds = 0.0


def set_clocks_back(deployment: Deployment) -> None:
    deployment.mail.mode = Mode.SILENT
    deployment.clock_seconds = -3600.0


def fill(deployment: Deployment) -> None:
    """Fill the file system of the run folders to its last block."""
    with filler(deployment).open("ab", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(1024))


def empty(deployment: Deployment) -> None:
    filler(deployment).unlink()


def filler(deployment: Deployment) -> Path:
    return deployment.host.seen(deployment.storage) / "filler"


MOST_SIDE_EFFECTS = 24
"""A gate and a sender write, rename, connect and send about so often."""


def kill_gate(chance: random.Random, number: int) -> Kill | None:
    """Kill half of the processes at one of their side effects, and others at any time."""
    draw, moment = chance.random(), chance.random()
    if not number:
        return Kill("task", at_effect=1 + int(moment * MOST_SIDE_EFFECTS)) if draw < 0.5 else None
    if draw < 0.5:
        return Kill("task", at_effect=1 + int(moment * MOST_SIDE_EFFECTS))
    targets = {0.65: "task", 0.75: "worker", 0.85: "both"}
    target = next((name for most, name in targets.items() if draw < most), "")
    return Kill(target, after=0.2 + moment) if target else None


def kill_sender(chance: random.Random) -> Kill | None:
    draw, moment = chance.random(), chance.random()
    if draw < 0.4:
        return Kill("task", at_effect=1 + int(moment * MOST_SIDE_EFFECTS))
    return Kill("both", after=moment) if draw < 0.7 else None


def stop_sender(chance: random.Random) -> Kill | None:
    draw, moment = chance.random(), chance.random()
    return Kill("stopped", after=3 * moment) if draw < 0.7 else None


PLANS = (
    mode("smtp", Mode.SILENT, "SMTP server silent"),
    mode("smtp", Mode.SILENT_AT_THE_END, "SMTP server silent after the mail"),
    mode("smtp", Mode.UNAVAILABLE, "SMTP server answers 421"),
    mode("smtp", Mode.TOO_MANY, "SMTP server answers 452"),
    mode("smtp", Mode.SLOW, "SMTP server takes it, answers after 12 s"),
    mode("smtp", Mode.LOSES_ANSWER, "SMTP server takes it, closes the connection"),
    mode("sendgrid", Mode.SILENT, "SendGrid silent"),
    mode("sendgrid", Mode.UNAVAILABLE, "SendGrid answers 503"),
    mode("sendgrid", Mode.TOO_MANY, "SendGrid answers 429"),
    of_warehouse("sqlite", "SQLite locked"),
    of_warehouse("postgresql", "PostgreSQL stopped"),
    of_warehouse("bigquery-503", "BigQuery answers 503"),
    of_warehouse("bigquery-silent", "BigQuery silent"),
    FaultPlan("disk of the run folders full", fill, empty, small_disk=True, stories=False),
    FaultPlan("kill -9 of gates, workers, callbacks", delay, be_well, stories=False, kills=kill_gate),
    FaultPlan(
        "kill -9 of these, and of senders", delay, be_well, stories=False, kills=kill_gate, sender_kill=kill_sender
    ),
    FaultPlan(
        "senders stopped longer than their lease",
        delay,
        be_well,
        stories=False,
        kills=kill_gate,
        sender_kill=stop_sender,
    ),
    FaultPlan("clocks set back by an hour, SMTP server silent", set_clocks_back, be_well),
)
