"""The link that opens an issue about an incident, with a title and a body that are filled in."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from ml_metrics.alerts.pages import page_of_run, page_of_test
from ml_metrics.errors import ConfigError
from ml_metrics.log_lines import logger_of
from ml_metrics.settings import BODY, TITLE, checked_issue_url

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ml_metrics.dashboard.inbox import Member
    from ml_metrics.settings import Settings

log = logger_of(__name__)

MAX_TITLE, MAX_BODY = 150, 1500
"""Addresses of more than 8,000 bytes are refused by some servers, and a letter may become nine of them."""


def usable_issue_url(settings: Settings) -> str:
    """Return the setting; empty if it cannot be used, which is logged."""
    try:
        return checked_issue_url(settings)
    except ConfigError as error:
        log.warning("%s: the inbox has no link to open an issue", error)
        return ""


def issue_link(address: str, member: Member, dashboard_url: str) -> str:
    """Return the address that opens an issue about a member of an incident; empty without the setting."""
    if not address:
        return ""
    title, body = f"{member.test}: {member.reason}", "\n".join(_body(member, dashboard_url))
    for name, text in ((TITLE, title[:MAX_TITLE]), (BODY, body[:MAX_BODY])):
        address = address.replace(name, quote(text, safe="", errors="replace"))
    return address


def _body(member: Member, dashboard_url: str) -> Iterator[str]:
    incident = member.incident
    yield f"Test: {page_of_test(dashboard_url, member.test)}"
    if member.first_bad:
        yield f"First bad run: {page_of_run(dashboard_url, member.first_bad)}"
    yield f"Broken since {incident.opened_at:%Y-%m-%d %H:%M} UTC: {member.reason}"
    if incident.cause:
        yield f"Cause: {incident.cause}"
    if member.owner:
        yield f"Owner: {member.owner}"
