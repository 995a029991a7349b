"""Writes a message before it is sent: first into its folder, then as a row of the warehouse; and sends it at once.

Every step may be repeated, by another process, after this one was killed at any moment. The process that wrote the
document may send the message at once; a minute after the row was added, senders may.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from ml_metrics.alerts.message import Message
from ml_metrics.alerts.outbox.attempt import MARGIN_SECONDS, Outcome, SentRecord, attempt, outcome_of
from ml_metrics.alerts.outbox.documents import IncidentChange, MessageFolder, Outgoing, run_message_name
from ml_metrics.alerts.policy import CAN_WAIT, channels_for
from ml_metrics.alerts.settings import MailSettings
from ml_metrics.core.deadline import in_time
from ml_metrics.core.errors import (
    AlertError,
    FileMissingError,
    MlMetricsError,
    StorageError,
    UnreadableInputError,
    WarehouseError,
)
from ml_metrics.core.text import logger_of
from ml_metrics.core.values import short_hash
from ml_metrics.store.markers import Markers, file_name
from ml_metrics.warehouse import HOLD_OFF, MessageState, StoredMessage, Warehouse

log = logger_of(__name__)

RECORD_SECONDS = 20.0
"""How long a process waits for the warehouse to have a row."""
HURRY_SECONDS = 10.0
"""The time for sending one message at once, and for recording that."""
CHANNEL_SECONDS = 7.0
"""The time for the channels within `HURRY_SECONDS`."""
OWN_SECONDS = 45.0
"""How long after writing a message a process may start to send it: senders leave it alone for a minute."""


@dataclass(frozen=True, slots=True)
class Posted:
    """A message that is stored, so that no crash can lose it."""

    outgoing: Outgoing
    folder: MessageFolder
    name: str
    """The name of its document."""
    mine: bool
    """Whether this process wrote it, and so may send it at once."""
    in_folder: bool
    """Whether it has a document; else its row holds it."""
    at: float
    """When it was written, on this process's monotonic clock."""


def post(
    message: Message,
    *,
    mail: MailSettings,
    warehouse: Warehouse | None,
    run_folder: str = "",
    held_because: str = "",
    incident: IncidentChange | None = None,
    summarises: tuple[str, ...] = (),
    ended: str = "",
) -> Posted:
    """Write a message durably, so that it will be sent once. It is not sent here.

    The key of a message about a run becomes the run key, a number, the kind and a hash; without `run_folder` it is
    kept. Without a warehouse, the row is added later, by a sender. `held_because`: why the message waits for the
    digest; empty if it is sent at once. `summarises`: the keys of the held messages that this one reports. `ended`:
    the incident of the test that ended last; empty if none did, or if it is unknown.

    Raises AlertError if neither the folder nor the warehouse can be written.
    """
    folder = MessageFolder.of_run(run_folder) if run_folder else mail.message_folder
    if message.test and not message.incident:
        # two deployments may page the same service about tests of one name
        message = replace(message, incident=f"{mail.deployment}/{message.test}")
    outgoing = Outgoing(message, mail.deployment, datetime.now(UTC), held_because, incident, summarises)
    name = file_name(message.key)
    if run_folder:
        name = run_message_name(outgoing, known_names(folder), ended)
        outgoing = replace(outgoing, message=replace(message, key=f"{message.run_key}-{name}"))
    at = time.monotonic()
    try:
        mail.markers.add(outgoing.message.key, messages=folder.path, document=name)
        posted = Posted(outgoing, folder, name, folder.create(name, outgoing), in_folder=True, at=at)
    except StorageError as error:
        log.warning("%s: the message is kept in the warehouse alone: %s", message.subject, error)
        if warehouse is None:
            raise AlertError(f"neither the run folder nor the warehouse can be written: {error}") from error
        content = json.dumps(outgoing.document())
        mine = in_time(lambda: _record(outgoing, warehouse, content=content), RECORD_SECONDS, "the warehouse")
        return Posted(outgoing, folder, name, mine, in_folder=False, at=at)
    if warehouse is not None:
        try:
            waits = in_time(lambda: _record_in_order(posted, mail.markers, warehouse), RECORD_SECONDS, "the warehouse")
            return replace(posted, mine=posted.mine and not waits)
        except MlMetricsError as error:
            log.warning("%s: a sender will add the row of this message: %s", message.subject, error)
    return posted


def _record_in_order(posted: Posted, markers: Markers, warehouse: Warehouse) -> bool:
    """Record a message. True if an earlier one about its test is still to be sent: then a sender sends both."""
    message = posted.outgoing.message
    if posted.mine:  # the document may be gone already: a workload can remove it
        _record(posted.outgoing, warehouse, document=posted.folder.document_path(posted.name))
        markers.remove(message.key)
    else:
        record(posted.folder, posted.name, markers, warehouse)
    earlier = warehouse.messages.pending_of(message.test) if message.test else []
    return any(one.message != message.key for one in earlier)


def known_names(folder: MessageFolder) -> list[str]:
    """The names of the messages in a folder; none if it cannot be listed, which is logged."""
    try:
        return folder.names()
    except StorageError as error:
        log.warning("earlier messages are unknown: %s", error)
        return []


def record(folder: MessageFolder, name: str, markers: Markers, warehouse: Warehouse) -> bool:
    """Add the row of a document and make its changes, unless it has a row, and remove its marker."""
    outgoing = folder.read(name)
    added = _record(outgoing, warehouse, document=folder.document_path(name))
    try:
        if (tried := folder.attempt(name)) is not None:  # its writer has tried to send it, and could not record that
            _record_own(outgoing.message.key, tried, warehouse)
    except UnreadableInputError as error:
        log.warning("%s: the attempt of its writer is not counted: %s", outgoing.message.subject, error)
    markers.remove(outgoing.message.key)
    return added


def record_waiting(below: str, markers: Markers, warehouse: Warehouse) -> None:
    """Add the rows that writers could not add: the next decision about a test then knows what its messages state."""
    waiting = [one for one in markers.all() if one.document and one.messages.startswith(f"{below.rstrip('/')}/")]
    for marker in sorted(waiting, key=lambda one: one.at):
        try:
            record(MessageFolder(marker.messages), marker.document, markers, warehouse)
        except (FileMissingError, UnreadableInputError) as error:  # a sender handles it
            log.warning("an earlier message about this test is unknown: %s", error)


def _record(outgoing: Outgoing, warehouse: Warehouse, *, document: str = "", content: str = "") -> bool:
    """Make the changes of a message, then add its row: a message that has a row needs nothing more."""
    message, change = outgoing.message, outgoing.incident
    if warehouse.messages.existing([message.key]):
        return False
    if change is not None:
        at = datetime.fromisoformat(change.at) if change.at else outgoing.decided_at
        if change.kind == "close":
            warehouse.incidents.close(message.test, message.run_key, incident=change.incident, at=at)
        else:
            warehouse.incidents.report(
                message.test,
                message.run_key,
                incident=message.key,
                fingerprint=short_hash("\n".join(change.reasons)),
                reasons=change.reasons,
                at=at,
                cause=change.cause,
                cost=change.cost,
            )
    warehouse.messages.summarise(outgoing.summarises)
    added = warehouse.messages.add(row_of(outgoing, document=document, content=content))
    if not added and not warehouse.messages.existing([message.key]):
        raise WarehouseError(f"message {message.key} has no row: another deployment has one with this key")
    return added


def row_of(outgoing: Outgoing, *, document: str = "", content: str = "") -> StoredMessage:
    message = outgoing.message
    return StoredMessage(
        message=message.key,
        run_key=message.run_key,
        test=message.test,
        owner=message.owner,
        occasion=str(message.kind),
        content_hash=outgoing.content_hash,
        timestamp=outgoing.decided_at,
        recipients=message.recipients,
        subject=message.subject,
        reasons=tuple(reason.sentence for reason in (*message.reasons, *message.warnings)),
        document=document,
        content=content,
        state=MessageState.HELD if outgoing.held_because in CAN_WAIT else MessageState.PENDING,
        held_because=outgoing.held_because,
    )


def _record_own(key: str, outcome: Outcome, warehouse: Warehouse) -> bool:
    """Record the attempt of the process that wrote a message. False if it has no row, or a sender has taken it.

    Repeating this counts nothing twice. Senders take over once the last threads of that process have ended.
    """
    free = max(outcome.next_attempt, warehouse.messages.moment() + HOLD_OFF)
    return warehouse.messages.finish(key, "", outcome.state, outcome.channels, free)


def addressed(message: Message, mail: MailSettings) -> Message:
    """Use the default addresses for those unknown when it was decided: secrets may have been unreadable, or not set."""
    return replace(message, recipients=message.recipients or mail.recipients, sender=message.sender or mail.sender)


def hurry(posted: Posted, mail: MailSettings, warehouse: Warehouse | None, seconds: float = HURRY_SECONDS) -> bool:
    """Send it in the process that wrote it. False if a sender needs to: whatever fails or hangs is left to them.

    The attempt is recorded in the row; else beside the message, from where a sender takes it over.
    """
    ends, outgoing = time.monotonic() + seconds, posted.outgoing
    time_for_channels = min(CHANNEL_SECONDS, seconds) - MARGIN_SECONDS
    key, subject = outgoing.message.key, outgoing.message.subject
    if not posted.mine or time.monotonic() - posted.at > OWN_SECONDS or time_for_channels <= 0:
        log.info("%s: senders send it", subject)
        return False
    channels = channels_for(mail.channels, outgoing.message.kind, outgoing.held_because)
    sent = SentRecord(posted.folder if posted.in_folder else None, posted.name)
    results = attempt(addressed(outgoing.message, mail), channels, time_for_channels, sent)
    arrived = all(one.delivered for one in results)

    def outcome(now: datetime) -> Outcome:
        return outcome_of(replace(row_of(outgoing), next_attempt=now), channels, sent, results, now)

    if warehouse is not None:
        try:
            if in_time(
                lambda: _record_own(key, outcome(warehouse.messages.moment()), warehouse),
                ends - time.monotonic(),
                "the warehouse",
            ):
                return arrived
        except MlMetricsError as error:
            log.warning("%s: a sender will record its delivery: %s", subject, error)
    if posted.in_folder:
        try:
            posted.folder.record_attempt(posted.name, outcome(datetime.now(UTC)))
            mail.markers.add(key, messages=posted.folder.path, document=posted.name)
        except StorageError as error:
            log.warning("%s: this attempt is not counted: %s", subject, error)
    return arrived
