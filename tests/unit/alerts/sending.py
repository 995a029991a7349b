"""A deployment with a real run folder and warehouse file, whose channels answer as a test requests."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any

from ml_metrics.alerts import MailSettings, Posted, post, send_pending
from ml_metrics.alerts.channels.mail import Outbox
from ml_metrics.alerts.message import Message, MessageKind, Reason
from ml_metrics.core.errors import UndeliveredError, WarehouseError
from ml_metrics.warehouse import SenderPass, StoredMessage, Warehouse

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
DOWN = UndeliveredError("smtp cannot be reached", transient=True)
WRONG_KEY = UndeliveredError("smtp answered 401")


def gone(*_: object, **__: object) -> Any:
    raise WarehouseError("gone")


@dataclass
class Fake:
    """A channel that raises an error while it has one."""

    name: str = "smtp"
    secrets: tuple[str, ...] = ()
    error: Exception | None = None
    tries: list[Message] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    before: Callable[[Message], object] = lambda _: None
    lock: Any = field(default_factory=Lock)

    def send(self, message: Message, timeout: float) -> str:
        with self.lock:
            self.tries.append(message)
        self.before(message)
        if self.error is not None:
            raise self.error
        with self.lock:
            self.sent.append(message.subject)
        return "accepted"

    def refuses(self, subject: str, error: Exception) -> None:
        """Never accept one message."""

        def refuse(sent: Message) -> None:
            if sent.subject == subject:
                raise error

        self.before = refuse


def message(number: int = 0, **fields: Any) -> Message:
    name = f"message {number}"
    about = {"test": f"test {number}", "reasons": (Reason("r", f"reason {number}"),), **fields}
    return Message(f"key-{number}", MessageKind.BROKEN, name, name, name, ("a@example.com", "b@example.com"), **about)


@dataclass
class Sending:
    """The deployment."""

    root: Path
    warehouse: Warehouse
    smtp: Fake = field(default_factory=Fake)
    others: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def outbox(self) -> Outbox:
        return Outbox(f"{self.root}/outbox")

    @property
    def mail(self) -> MailSettings:
        known = {"storage_root": f"{self.root}/runs", "channels": (self.smtp, *self.others), **self.options}
        return MailSettings(outbox=self.outbox, **known)

    def post(
        self, number: int = 0, *, recorded: bool = True, about: dict[str, Any] | None = None, **how: Any
    ) -> Posted:
        warehouse = self.warehouse if recorded else None
        return post(message(number, **(about or {})), mail=self.mail, warehouse=warehouse, **how)

    def send(self, **how: Any) -> SenderPass:
        return send_pending(self.warehouse, self.mail, **how)

    @property
    def rows(self) -> list[StoredMessage]:
        return self.warehouse.messages.since(LONG_AGO)

    @property
    def row(self) -> StoredMessage:
        (row,) = self.rows
        return row

    def change(self, **columns: Any) -> None:
        """Change columns of all rows."""
        self.warehouse.database.change(
            f"UPDATE messages SET {', '.join(f'{name} = :{name}' for name in columns)}", **columns
        )

    def after_every_pause(self) -> None:
        """Let everything be due, without forgetting what each channel answered."""
        (found,) = self.warehouse.database.query("SELECT channels FROM messages")
        free = {name: {**one, "not_before": ""} for name, one in json.loads(found["channels"]).items()}
        self.change(next_attempt=LONG_AGO, channels=json.dumps(free))

    def forget_attempts(self) -> None:
        """Let everything be due, as if no channel had been tried."""
        self.change(next_attempt=LONG_AGO, channels="{}")

    def with_channels(self, *others: Any) -> Sending:
        return replace(self, others=others)

    def mails(self) -> list[Path]:
        return sorted(Path(self.outbox.folder).glob("*.eml"))
