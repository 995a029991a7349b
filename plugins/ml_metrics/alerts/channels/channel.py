"""The interface of a channel; services that take JSON documents; and channels whose configuration is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from ml_metrics.alerts.message import Message
from ml_metrics.core.deadline import Deadline, within
from ml_metrics.core.errors import UndeliveredError
from ml_metrics.core.http import Client


class Channel(Protocol):
    """A way to deliver messages."""

    @property
    def name(self) -> str:
        """The name in settings, logs and the warehouse."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts that must never appear in a log or a message."""

    def send(self, message: Message, timeout: float) -> str:
        """Deliver a message and return where it is. Raises `UndeliveredError`.

        It returns or raises within about `timeout` + 1 seconds, however slow the other side is.
        """


class JsonService:
    """A channel that posts JSON documents to a service, each to its own address."""

    __slots__ = ()
    service: ClassVar[str]

    @property
    def secrets(self) -> tuple[str, ...]:
        raise NotImplementedError

    def requests(self, message: Message) -> tuple[str, Sequence[tuple[str, Mapping[str, Any]]]]:
        """Where the message then is, and the addresses and documents to post; none if the service need not know."""
        raise NotImplementedError

    def credentials(self) -> tuple[dict[str, str], tuple[str, ...]]:
        """The headers that allow posting, and the secrets in them and in the addresses."""
        return {}, self.secrets

    def send(self, message: Message, timeout: float) -> str:
        where, requests = self.requests(message)

        def post(deadline: Deadline) -> None:
            headers, secrets = self.credentials()
            client = Client(self.service, deadline, headers, secrets)
            for address, document in requests:
                client.send("POST", address, document)

        if requests:
            within(timeout, self.service, post)
        return where


@dataclass(frozen=True, slots=True)
class Unusable:
    """A misconfigured channel: its messages are kept, with the reason."""

    name: str
    reason: str
    secrets: tuple[str, ...] = ()

    def send(self, message: Message, timeout: float) -> str:
        raise UndeliveredError(self.reason)
