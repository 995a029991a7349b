"""A world in which processes write and send messages, each killed before any of its side effects.

Folder and warehouse are real; the mail server, the clocks and the kills are the world's.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from ml_metrics import MlMetricsError
from ml_metrics.alerts import MailSettings
from ml_metrics.alerts.message import Message, MessageKind, Reason
from ml_metrics.alerts.outbox import post, sender
from ml_metrics.alerts.outbox.attempt import Outcome
from ml_metrics.alerts.outbox.documents import MessageFolder, Outgoing
from ml_metrics.core.errors import StorageError, UndeliveredError, WarehouseError
from ml_metrics.store import storage
from ml_metrics.warehouse import open_warehouse
from ml_metrics.warehouse.database import Database
from ml_metrics.warehouse.messages import Messages

RECORDING_EFFECTS = 2
"""From the answer of a server to its record: the answer is received, and a file is written."""
BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
PERIOD = timedelta(minutes=5)


class Killed(BaseException):
    """A process was killed. It has no effects any more."""


class Server(StrEnum):
    """What the mail server does."""

    WELL = "takes each message"
    REFUSES = "takes nothing, and answers so"
    SILENT = "takes nothing, and never answers"
    LOSES = "takes each message, and its answer is lost"


@dataclass
class Process:
    """One process. It is killed before its nth side effect, or something else happens then."""

    killed_before: int = 0
    interludes: dict[int, Callable[[], None]] = field(default_factory=dict)
    clock: timedelta = timedelta()
    """How far its clock is ahead."""
    effects: int = 0
    is_killed: bool = False
    accepted: dict[str, int] = field(default_factory=dict)
    """The messages whose acceptance it has seen, each with the number of its side effects until then."""
    cannot_record: bool = False
    """Whether a disk or a warehouse failed while it ran."""

    def __post_init__(self) -> None:
        self._disturbed = {self.killed_before, *self.interludes}

    def was_disturbed_after(self, effect: int) -> bool:
        """Whether it was killed or stopped right after an effect, before it could record that."""
        return self.cannot_record or not self._disturbed.isdisjoint(range(effect + 1, effect + 1 + RECORDING_EFFECTS))


@dataclass
class World:
    """Everything outside the processes."""

    folder: Path
    now: datetime = BEGINNING
    monotonic: float = 1000.0
    server: Server = Server.WELL
    warehouse_works: bool = True
    disk_works: bool = True
    process: Process = field(default_factory=Process)
    arrived: Counter[str] = field(default_factory=Counter)
    lost_answers: Counter[str] = field(default_factory=Counter)
    taken_before_durable: list[str] = field(default_factory=list)

    name = "smtp"
    secrets: tuple[str, ...] = ()

    def send(self, message: Message, timeout: float) -> str:
        """Be the channel."""
        self.effect()
        if self.server in {Server.REFUSES, Server.SILENT}:
            raise UndeliveredError("the server takes nothing", transient=True)
        if not self.is_durable(message.key):
            self.taken_before_durable.append(message.key)
        self.arrived[message.key] += 1
        if self.server is Server.LOSES:
            self.lost_answers[message.key] += 1
            raise UndeliveredError("the connection was closed", transient=True)
        self.process.accepted[message.key] = self.process.effects
        self.effect()
        return "accepted"

    def effect(self) -> None:
        """Let happen what happens before a side effect of the current process."""
        process = self.process
        if process.is_killed:
            raise Killed
        process.effects += 1
        if interlude := process.interludes.pop(process.effects, None):
            with self.running(Process(clock=process.clock)):
                interlude()
        if process.effects == process.killed_before:
            process.is_killed = True
            raise Killed

    @contextmanager
    def running(self, process: Process) -> Iterator[None]:
        """Run a process; afterwards another one goes on, if it was an interlude."""
        outer, self.process = self.process, process
        try:
            with suppress(Killed, MlMetricsError):
                yield
            process.is_killed = True  # a thread that it left has no effects
        finally:
            self.process = outer
        for key, effect in process.accepted.items():
            if process.was_disturbed_after(effect):
                self.lost_answers[key] += 1

    @property
    def mail(self) -> MailSettings:
        outbox: Any = SimpleNamespace(name="outbox", secrets=(), send=lambda *_: "outbox")
        return MailSettings((self,), outbox, storage_root=str(self.folder / "runs"), deployment="local")  # type: ignore[arg-type]

    def open(self) -> Any:
        return open_warehouse(f"sqlite:///{self.folder}/warehouse.db")

    def run_folder(self, run: int) -> str:
        return str(self.folder / "runs" / "t" / f"run-{run}")

    def decided(self) -> set[str]:
        """The keys of all messages that exist outside a process."""
        keys = set()
        for run in range(3):
            with self.outside():
                keys |= {f"run-{run}-{name}" for name in MessageFolder.of_run(self.run_folder(run)).names()}
        return keys | set(self.rows())

    def rows(self) -> dict[str, Any]:
        with self.outside(), self.open() as warehouse:
            return {row.message: row for row in warehouse.messages.since(BEGINNING - timedelta(days=400), limit=1000)}

    def is_durable(self, key: str) -> bool:
        return key in self.decided()

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Look at everything as no process does: nothing fails and nothing is killed."""
        works = self.warehouse_works, self.disk_works, self.process
        self.warehouse_works, self.disk_works, self.process = True, True, Process()
        try:
            yield
        finally:
            self.warehouse_works, self.disk_works, self.process = works


def message(run: int, content: int) -> Message:
    reason = Reason(f"out_of_bounds:metric-{content}", f"metric-{content} is out of bounds")
    return Message(
        key=f"run-{run}",
        kind=MessageKind.BROKEN,
        subject=f"t failed: {content}",
        text="text",
        html="<p>text</p>",
        recipients=("a@example.com",),
        test="t",
        run_key=f"run-{run}",
        owner="o",
        reasons=(reason,),
    )


def set_clocks(patch: pytest.MonkeyPatch, now: Callable[[], datetime]) -> None:
    """Let each module of the package, as far as it is loaded, see this time."""

    for kind in (Outgoing, Outcome):
        msgspec.json.Decoder(kind)  # reads the annotations once, with the real class

    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
            return now()

    for module in [one for name, one in sys.modules.items() if name.startswith("ml_metrics.")]:
        if module.__dict__.get("datetime") is datetime:
            patch.setattr(module, "datetime", Clock)


@contextmanager
def patched(world: World) -> Iterator[None]:
    """Let the package act in the world."""
    real_time = time

    def failing(name: str, error: type[MlMetricsError], works: str) -> Callable[..., Any]:
        real = getattr(storage, name) if error is StorageError else getattr(Database, name)

        def act(*arguments: Any, **more: Any) -> Any:
            world.effect()
            if not getattr(world, works):
                world.process.cannot_record = True
                raise error("it does not work now")
            return real(*arguments, **more)

        return act

    with pytest.MonkeyPatch.context() as patch:
        for name in ("write_bytes", "remove"):
            patch.setattr(storage, name, failing(name, StorageError, "disk_works"))
        for name in ("change", "query"):
            patch.setattr(Database, name, failing(name, WarehouseError, "warehouse_works"))
        patch.setattr(Messages, "moment", lambda _: world.now)
        patch.setattr(sender, "THREADS", 1)
        patch.setattr(threading, "excepthook", lambda _: None)  # threads of killed processes
        monotonic = SimpleNamespace(monotonic=lambda: world.monotonic, time=real_time.time, sleep=lambda _: None)
        set_clocks(patch, lambda: world.now + world.process.clock)
        for module in (post, sender):
            patch.setattr(module, "time", monotonic)
        yield
