"""Decides when to notify: once when a test breaks, again when it gets worse, and once when it recovers."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ml_metrics.alerts.channels.channel import Channel
from ml_metrics.alerts.message import TRACKERS, MessageKind

A_WARNING = "a warning"
A_SILENCE = "a condition that does not decide"
ACKNOWLEDGED = "the incident is acknowledged"
BUDGET = "the alert budget"
CAN_WAIT = {A_WARNING, A_SILENCE, ACKNOWLEDGED, BUDGET}
"""Reasons to hold a message for up to a day."""
PART_OF = "part of an incident: "
"""Followed by the cause: the message waits for the next update of the incident."""
PART_OF_MASS_FAILURE = "many tests failed at once, which one message reports"
ANY_JOB = "job_status:"
"""How incidents of older versions name every problem of the job."""


def due_notification(
    problems: Collection[str],
    warnings: Collection[str],
    *,
    reported: Collection[str] | None,
    acknowledged: bool,
    passed: bool,
    mails: tuple[int, int] = (0, 0),
    mails_per_hour: int = 10,
) -> tuple[MessageKind, str] | None:
    """The kind of the message that is due after a run, and why it waits for the digest; None if none is due.

    A run can fail without a problem to report. `warnings` are the names of the problems by conditions of severity
    `warn`; `reported` are the problems that were reported since the test's incident was opened; None if no incident is
    open. `acknowledged` is about that incident. `mails`: the messages within an hour about all tests of the owner, and
    about this test. Anybody can name an owner: other tests never hold back the first message.
    """
    kind = change_to_report(problems, reported, passed=passed)
    if kind is None:
        return (MessageKind.WARNING, A_WARNING) if warnings else None
    if kind is MessageKind.WORSE and acknowledged:
        return kind, ACKNOWLEDGED
    of_owner, about_test = mails
    if of_owner >= mails_per_hour and (about_test or mails_per_hour <= 0):
        return kind, f"the owner got {of_owner} messages within an hour"
    return kind, ""


def change_to_report(
    problems: Collection[str], reported: Collection[str] | None, *, passed: bool
) -> MessageKind | None:
    """How a run changed the state of its test, or None. `reported` is None if no incident is open."""
    if problems and reported is None:
        return MessageKind.BROKEN
    known = reported or ()
    news = {one for one in problems if one not in known and not (ANY_JOB in known and one.startswith(ANY_JOB))}
    if news:
        return MessageKind.WORSE
    return MessageKind.RECOVERED if passed and reported is not None else None


FOR_RECIPIENTS = {MessageKind.TRIAL, MessageKind.COST, MessageKind.ANSWER}
"""Messages for the addresses that asked for them: no chat shows them, and they page nobody."""


def channels_for(channels: Sequence[Channel], kind: MessageKind, held_because: str) -> list[Channel]:
    """The channels that a message is sent on now, whether or not it waits for the digest."""
    trackers = [one for one in channels if one.name.partition(":")[0] in TRACKERS]
    if kind is MessageKind.RESULT:
        return trackers
    if held_because in CAN_WAIT:
        return []
    channels = [one for one in channels if one not in trackers]
    if kind in FOR_RECIPIENTS:
        return [one for one in channels if one.name.partition(":")[0] in {"outbox", "smtp", "sendgrid"}]
    if kind in {MessageKind.DIGEST, MessageKind.HEARTBEAT}:
        return [one for one in channels if not is_per_test(one)]
    return [one for one in channels if not held_because or is_per_test(one)]


def is_per_test(channel: Channel) -> bool:
    """Whether a channel has an entry for each test."""
    return channel.name.partition(":")[0] in {"github", "error_reporting", "pagerduty", "opsgenie"}
