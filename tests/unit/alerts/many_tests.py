"""A deployment with many tests, whose runs end as they are given, without Airflow."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import pytest

from ml_metrics import TestDefinition
from ml_metrics.alerts import MailSettings, RunNotifier, send_due_digests
from ml_metrics.alerts.channels.mail import Outbox
from ml_metrics.alerts.message import Message
from ml_metrics.core.model import JobStatus, Run, Workload
from ml_metrics.pipeline import RunState
from ml_metrics.pipeline.steps import decide
from ml_metrics.store.run_folder import RunFolder
from ml_metrics.warehouse import Warehouse, open_warehouse
from ml_metrics.warehouse.messages import Messages
from unit.alerts.message_world import set_clocks

T = TypeVar("T", bound="Clocked")

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

    def ended(self, name: str, *, emails: tuple[str, ...] = (), **workload: Any) -> None:
        """Let a run of a test end, and do what its gate and its callback do."""
        self.runs += 1
        run = Run(name, name, f"run {self.runs}", self.deployment)
        folder = RunFolder.of(run, str(self.root))
        self.end(folder, **workload)
        self.notify(run, folder, emails)

    def end(self, folder: RunFolder, **workload: Any) -> None:
        how = {"status": JobStatus.SUCCESS, "ended_at": datetime.now(UTC), **workload}
        folder.write_workload(Workload(**how))
        if how["status"] is JobStatus.SUCCESS:
            folder.write("gate", {"reasons": [], "troubles": {}})
        else:
            decide(RunState(folder), {})

    def notify(self, run: Run, folder: RunFolder, emails: tuple[str, ...] = ()) -> None:
        test = TestDefinition(name=run.test, image=IMAGE, command=("c",), owner="owner", emails=emails)
        notifier = RunNotifier(run, RunState(folder), self.warehouse, self.mail)
        posted = notifier.post_due(test)
        if posted is not None:
            notifier.hurry(posted, 5.0)


@dataclass
class Clocked(Tests):
    """The same with a clock, which nobody but the tests moves."""

    now: datetime = datetime(2026, 11, 27, 12, tzinfo=UTC)
    failures: int = 0

    def fails(self, name: str, **more: Any) -> str:
        """Let a test fail for a reason of its own, and return what its owner reads."""
        self.failures += 1
        how = {"failure_reason": f"ExitCode:{self.failures}", "image": f"i:{self.failures}", "ended_at": self.now}
        self.ended(name, status=JobStatus.FAILURE, **how, **more)
        return f"exit code {self.failures}"

    def passes(self, name: str, **more: Any) -> None:
        self.ended(name, ended_at=self.now, **more)

    def digest(self) -> None:
        send_due_digests(self.warehouse, self.mail, self.now)


@contextmanager
def clocked(kind: type[T], **fields: Any) -> Iterator[T]:
    with (
        tempfile.TemporaryDirectory() as root,
        pytest.MonkeyPatch.context() as patch,
        open_warehouse(f"sqlite:///{root}/warehouse.db", deployment="local") as opened,
    ):
        made = kind(Path(root), opened, **fields)
        set_clocks(patch, lambda: made.now)
        patch.setattr(Messages, "moment", lambda _: made.now)
        yield made
