"""A mail server.

Airflow's own SMTP hook sends neither plain text nor pictures beside the HTML, and does not return the recipients that
the server rejected.
"""

from __future__ import annotations

import smtplib
import ssl
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ml_metrics.alerts.channels.channel import UndeliveredError
from ml_metrics.alerts.mail import LONG_LINES, SENDER, as_mail

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ml_metrics.alerts.message import Message

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
        """The password."""
        return (self.password,)

    def send(self, message: Message, timeout: float) -> str:
        """Send the mail to every recipient."""
        if not message.recipients:
            raise UndeliveredError("there are no recipients: set the test's `emails` or the default recipients")
        mail = as_mail(message, self.sender).as_bytes(policy=LONG_LINES.clone(linesep="\r\n"))
        sender = message.sender or self.sender or SENDER
        try:
            with self._server(timeout) as server:
                rejected = server.sendmail(sender, message.recipients, mail)
        except smtplib.SMTPRecipientsRefused as error:
            raise _rejected(error.recipients, message.recipients) from None
        except smtplib.SMTPResponseException as error:
            reason = f"{self.host} answered {error.smtp_code} ({_one_line(error.smtp_error)})"
            raise UndeliveredError(reason, transient=error.smtp_code < PERMANENT_ERROR) from None
        except smtplib.SMTPNotSupportedError as error:
            raise UndeliveredError(f"{self.host}: {error}") from None
        except (smtplib.SMTPException, OSError) as error:
            # smtplib raises its own error while it handles the TimeoutError
            timed_out = isinstance(error, TimeoutError) or isinstance(error.__context__, TimeoutError)
            kind = "took too long" if timed_out else f"cannot be reached ({type(error).__name__})"
            raise UndeliveredError(f"{self.host} {kind}", transient=True) from None
        if rejected:
            raise _rejected(rejected, message.recipients)
        return f"accepted by {self.host} for {', '.join(message.recipients)}"

    @contextmanager
    def _server(self, timeout: float) -> Iterator[smtplib.SMTP]:
        context = ssl.create_default_context()
        if not self.verify:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = (
            smtplib.SMTP_SSL(self.host, self.port, timeout=timeout, context=context)
            if self.implicit_tls
            else smtplib.SMTP(self.host, self.port, timeout=timeout)
        )
        with connection as server:
            if self.starttls and not self.implicit_tls:
                server.starttls(context=context)
            if self.login:
                server.login(self.login, self.password)
            yield server


def _rejected(rejected: Mapping[str, tuple[int, bytes]], recipients: tuple[str, ...]) -> UndeliveredError:
    """Return the error for some or all recipients being rejected. The others received the mail."""
    replies = "; ".join(f"{who}: {code} {_one_line(text)}" for who, (code, text) in sorted(rejected.items()))
    accepted = [who for who in recipients if who not in rejected]
    reason = f"rejected for {replies}" + (f"; accepted for {', '.join(accepted)}" if accepted else "")
    transient = any(code < PERMANENT_ERROR for code, _ in rejected.values())
    return UndeliveredError(reason, transient=transient, remaining=tuple(rejected))


def _one_line(reply: bytes | str) -> str:
    text = reply.decode(errors="replace") if isinstance(reply, bytes) else reply
    return " ".join(text.split())[:200]
