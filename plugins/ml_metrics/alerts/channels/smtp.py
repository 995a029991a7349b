"""A mail server, by an Airflow connection of the type `smtp`.

Not Airflow's own hook: it sends HTML without the plain text and without the pictures, and does not say which of the
recipients the server refused.
"""

from __future__ import annotations

import smtplib
import ssl
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ml_metrics.alerts.channels.channel import UndeliveredError
from ml_metrics.alerts.mail import LINES, SENDER, as_mail

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ml_metrics.alerts.message import Message

FOR_GOOD = 500
"""Replies from here on say that another try will not help (RFC 5321)."""


@dataclass(frozen=True, slots=True)
class Smtp:
    """A server and who we are to it."""

    host: str
    port: int
    login: str = ""
    password: str = field(default="", repr=False)
    sender: str = ""
    """Who mails come from that name no sender."""
    implicit_tls: bool = False
    """TLS from the first byte, as on port 465."""
    starttls: bool = True
    """TLS after a plain beginning, as on port 587."""
    verify: bool = True
    name: str = "smtp"

    @property
    def secrets(self) -> tuple[str, ...]:
        """The password."""
        return (self.password,)

    def send(self, message: Message, timeout: float) -> str:
        """Hand the mail to the server for every recipient."""
        if not message.recipients:
            raise UndeliveredError("the test names no `emails`, and there is no address for tests that name none")
        mail = as_mail(message, self.sender)
        sender = message.sender or self.sender or SENDER
        try:
            with self._server(timeout) as server:
                refused = server.sendmail(sender, message.recipients, mail.as_bytes(policy=LINES.clone(linesep="\r\n")))
        except smtplib.SMTPRecipientsRefused as error:
            raise _refused(error.recipients, message.recipients) from None
        except smtplib.SMTPResponseException as error:
            why = f"{self.host} answered {error.smtp_code} ({_words(error.smtp_error)})"
            raise UndeliveredError(why, passing=error.smtp_code < FOR_GOOD) from None
        except smtplib.SMTPNotSupportedError as error:
            raise UndeliveredError(f"{self.host}: {error}") from None
        except (smtplib.SMTPException, OSError) as error:
            kind = "took too long" if isinstance(error, TimeoutError) else f"cannot be reached ({type(error).__name__})"
            raise UndeliveredError(f"{self.host} {kind}", passing=True) from None
        if refused:
            raise _refused(refused, message.recipients)
        return f"{self.host} took it for {', '.join(message.recipients)}"

    @contextmanager
    def _server(self, timeout: float) -> Iterator[smtplib.SMTP]:
        context = ssl.create_default_context()
        if not self.verify:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        made = (
            smtplib.SMTP_SSL(self.host, self.port, timeout=timeout, context=context)
            if self.implicit_tls
            else smtplib.SMTP(self.host, self.port, timeout=timeout)
        )
        with made as server:
            if self.starttls and not self.implicit_tls:
                server.starttls(context=context)
            if self.login:
                server.login(self.login, self.password)
            yield server


def _refused(refused: Mapping[str, tuple[int, bytes]], recipients: tuple[str, ...]) -> UndeliveredError:
    """Some or all were refused; those who were not have got it."""
    told = "; ".join(f"{who}: {code} {_words(said)}" for who, (code, said) in sorted(refused.items()))
    got_it = [who for who in recipients if who not in refused]
    why = f"refused for {told}" + (f"; taken for {', '.join(got_it)}" if got_it else "")
    return UndeliveredError(why, passing=any(code < FOR_GOOD for code, _ in refused.values()), remaining=tuple(refused))


def _words(said: bytes | str) -> str:
    text = said.decode(errors="replace") if isinstance(said, bytes) else said
    return " ".join(text.split())[:200]
