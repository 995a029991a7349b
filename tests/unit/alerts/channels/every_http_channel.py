"""Every channel that sends HTTP requests, with a secret, at an address on loopback."""

from __future__ import annotations

from collections.abc import Callable

from ml_metrics.alerts.channels.channel import Channel
from ml_metrics.alerts.channels.error_reporting import ErrorReporting
from ml_metrics.alerts.channels.github import GitHubIssues
from ml_metrics.alerts.channels.paging import Opsgenie, PagerDuty
from ml_metrics.alerts.channels.sendgrid import SendGrid
from ml_metrics.alerts.channels.webhook import GoogleChat, Teams, Webhook

SECRET = "s3cr3t-that-lets-anyone-post"
HTTP_CHANNELS: dict[str, Callable[[str], Channel]] = {
    "sendgrid": lambda url: SendGrid(SECRET, sender="me@example.com", host=url),
    "webhook": lambda url: Webhook(f"{url}/services/{SECRET}"),
    "github": lambda url: GitHubIssues("owner/repo", SECRET, host=url),
    "teams": lambda url: Teams(f"{url}/workflows/invoke?api-version=1&sig={SECRET}"),
    "google_chat": lambda url: GoogleChat(f"{url}/v1/spaces/AAA/messages?key=public-key&token={SECRET}"),
    "pagerduty": lambda url: PagerDuty(SECRET, host=url),
    "opsgenie": lambda url: Opsgenie(SECRET, host=url),
    "error_reporting": lambda url: ErrorReporting("project", lambda: SECRET, host=url),
}
