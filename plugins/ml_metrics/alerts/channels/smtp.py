"""A mail server.

Airflow's own SMTP hook sends neither plain text nor pictures beside the HTML, and does not return the recipients that
the server rejected.
"""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from ml_metrics.alerts.channels.mail import LONG_LINES, as_mail, fitted
from ml_metrics.alerts.message import Message
from ml_metrics.core.deadline import Deadline, within
from ml_metrics.core.errors import UndeliveredError

READY = 220
MAX_BYTES = 10 << 20
"""The largest mail for a server that states no limit."""
PERMANENT_ERROR = 500
"""Replies from this code on are permanent errors (RFC 5321)."""


@dataclass(frozen=True, slots=True)
class Smtp:
    """A mail server and the login."""

    host: str
    port: int
    login: str = ""
    password: str = field(default="", repr=False)
    sender: str = ""
    """The sender of mails that have none."""
    implicit_tls: bool = False
    """TLS from the start, as on port 465."""
    starttls: bool = True
    """An upgrade to TLS, as on port 587."""
    verify: bool = True
    name: str = "smtp"

    @property
    def secrets(self) -> tuple[str, ...]:
        return (self.password,)

    def send(self, message: Message, timeout: float) -> str:
        if not message.recipients:
            raise UndeliveredError("there are no recipients: set the test's `emails` or the default recipients")
        return within(timeout, self.host, lambda deadline: self._deliver(message, deadline))

    def check(self, timeout: float) -> str:
        """Connect and log in as for a mail, and send none."""

        def connect(deadline: Deadline) -> str:
            with self._errors_translated(deadline), self._server(deadline):
                return f"{self.host}:{self.port} accepts the {'login' if self.login else 'connection'}"

        return within(timeout, self.host, connect)

    def _deliver(self, message: Message, deadline: Deadline) -> str:
        with self._errors_translated(deadline), self._server(deadline) as server:
            try:
                rejected = self._hand_over(message, server)
            except smtplib.SMTPRecipientsRefused as error:
                raise _rejected(error.recipients, message.recipients) from None
        if rejected:
            raise _rejected(rejected, message.recipients)
        return f"accepted by {self.host} for {', '.join(message.recipients)}"

    @contextmanager
    def _errors_translated(self, deadline: Deadline) -> Iterator[None]:
        try:
            yield
        except smtplib.SMTPResponseException as error:
            reason = f"{self.host} answered {error.smtp_code} ({_one_line(error.smtp_error)})"
            raise UndeliveredError(reason, transient=error.smtp_code < PERMANENT_ERROR) from None
        except smtplib.SMTPNotSupportedError as error:
            raise UndeliveredError(f"{self.host}: {error}") from None
        except OSError as error:  # the family of smtplib's errors, too
            # smtplib raises its own error while it handles the TimeoutError
            timed_out = isinstance(error, TimeoutError) or isinstance(error.__context__, TimeoutError)
            kind = "took too long" if timed_out else f"cannot be reached ({type(error).__name__})"
            unconfirmed = deadline.handed_over
            raise UndeliveredError(f"{self.host} {kind}", transient=True, unconfirmed=unconfirmed) from None
        except ValueError:
            reason = "an address of sender or recipients has characters that this server cannot take"
            raise UndeliveredError(reason) from None

    def _hand_over(self, message: Message, server: smtplib.SMTP) -> Mapping[str, tuple[int, bytes]]:
        """Send the mail and return the recipients that were rejected."""
        server.ehlo_or_helo_if_needed()
        limit = server.esmtp_features.get("size", "")
        fits = fitted(message, min(int(limit) or MAX_BYTES, MAX_BYTES) if limit.isdecimal() else MAX_BYTES)
        mail = as_mail(fits, self.sender)
        content = mail.as_bytes(policy=LONG_LINES.clone(linesep="\r\n"))
        return server.sendmail(mail["From"], message.recipients, content)

    @contextmanager
    def _server(self, deadline: Deadline) -> Iterator[smtplib.SMTP]:
        context = ssl.create_default_context()
        if not self.verify:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        server = _TlsServer(deadline, context) if self.implicit_tls else _Server(deadline)
        try:
            server.open(self.host, self.port)
            if self.starttls and not self.implicit_tls:
                server.starttls(context=context)
            if self.login:
                server.login(self.login, self.password)
            yield server
            with suppress(OSError):
                server.putcmd("QUIT")  # the reply does not matter: the mail was accepted
        finally:
            server.close()


class _Server(smtplib.SMTP):
    """A server whose connection ends with the deadline."""

    def __init__(self, deadline: Deadline) -> None:
        self.deadline = deadline
        super().__init__(timeout=deadline.remaining)
        deadline.watch(self)

    def open(self, host: str, port: int) -> None:
        """Connect. `starttls` needs the name of the host."""
        self._host = host
        code, reply = self.connect(host, port)
        if code != READY:
            raise smtplib.SMTPConnectError(code, reply)

    def send(self, s: Any) -> None:
        """Send a command, or the whole mail: from then on the server may have accepted it."""
        super().send(s)
        self.deadline.handed_over = isinstance(s, bytes) and s.endswith(b"\r\n.\r\n")


class _TlsServer(_Server, smtplib.SMTP_SSL):
    def __init__(self, deadline: Deadline, context: ssl.SSLContext) -> None:
        super().__init__(deadline)
        self.context = context


def _rejected(rejected: Mapping[str, tuple[int, bytes]], recipients: tuple[str, ...]) -> UndeliveredError:
    """The error for some or all recipients being rejected. The others received the mail."""
    replies = "; ".join(f"{who}: {code} {_one_line(text)}" for who, (code, text) in sorted(rejected.items()))
    accepted = [who for who in recipients if who not in rejected]
    reason = f"rejected for {replies}" + (f"; accepted for {', '.join(accepted)}" if accepted else "")
    transient = any(code < PERMANENT_ERROR for code, _ in rejected.values())
    return UndeliveredError(reason, transient=transient, remaining=tuple(rejected))


def _one_line(reply: bytes | str) -> str:
    text = reply.decode(errors="replace") if isinstance(reply, bytes) else reply
    return " ".join(text.split())[:200]
