"""A deployment with many tests, whose runs end as they are given, without Airflow."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ml_metrics import TestDefinition
from ml_metrics.alerts import MailSettings, RunNotifier
from ml_metrics.alerts.channels.mail import Outbox
from ml_metrics.alerts.message import Message
from ml_metrics.core.model import JobStatus, Run, Workload
from ml_metrics.pipeline import RunState
from ml_metrics.pipeline.steps import decide
from ml_metrics.store.run_folder import RunFolder
from ml_metrics.warehouse import Warehouse

IMAGE = "gcr.io/x/trainer:nightly"
NO_IMAGE = {"status": JobStatus.MISSED, "failure_reason": "ImagePullBackOff", "image": IMAGE}


@dataclass
class Sent:
    """A channel that keeps what it gets."""

    name: str = "smtp"
    secrets: tuple[str, ...] = ()
    messages: list[Message] = field(default_factory=list)

    def send(self, message: Message, timeout: float) -> str:
        self.messages.append(message)
        return "accepted"

    @property
    def subjects(self) -> list[str]:
        return [one.subject.removeprefix("[ML Metrics] ") for one in self.messages]


@dataclass
class Tests:
    """The tests of one deployment."""

    __test__ = False

    root: Path
    warehouse: Warehouse
    deployment: str = "local"
    sent: Sent = field(default_factory=Sent)
    options: dict[str, Any] = field(default_factory=dict)
    runs: int = 0

    @property
    def mail(self) -> MailSettings:
        return MailSettings(
            (self.sent,),
            Outbox(str(self.root / "outbox")),
            storage_root=str(self.root),
            deployment=self.deployment,
            dashboard_url="http://airflow/ml-metrics",
            recipients=("all@example.com",),
            **{"mails_per_hour": 1000, "mass_failure_percent": 0, "mass_failure_tests": 0, **self.options},
        )

    def ended(self, name: str, *, emails: tuple[str, ...] = (), folder: Any = None, **workload: Any) -> RunFolder:
        """Let a run of a test end, and do what its gate and its callback do."""
        self.runs += 1
        run = Run(name, name, f"run {self.runs}", self.deployment)
        folder = folder or RunFolder.of(run, str(self.root))
        folder.write_workload(Workload(**{"status": JobStatus.SUCCESS, "ended_at": datetime.now(UTC), **workload}))
        if workload.get("status", JobStatus.SUCCESS) is JobStatus.SUCCESS:
            folder.write("gate", {"reasons": [], "troubles": {}})
        else:
            decide(RunState(folder), {})
        test = TestDefinition(name=name, image=IMAGE, command=("c",), owner="owner", emails=emails)
        notifier = RunNotifier(run, RunState(folder), self.warehouse, self.mail)
        posted = notifier.post_due(test)
        if posted is not None:
            notifier.hurry(posted, 5.0)
        return folder
