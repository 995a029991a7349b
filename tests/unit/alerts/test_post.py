"""A message is written durably before it is sent, whatever fails and wherever its process is killed."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from ml_metrics.alerts import hurry, post
from ml_metrics.alerts.message import Message, MessageKind
from ml_metrics.alerts.outbox import post as outgoing
from ml_metrics.alerts.outbox.documents import IncidentChange, MessageFolder
from ml_metrics.alerts.outbox.post import record
from ml_metrics.alerts.outbox.sender import open_channels
from ml_metrics.alerts.policy import A_WARNING
from ml_metrics.core.errors import AlertError, StorageError, WarehouseError
from ml_metrics.store import storage
from ml_metrics.store.markers import Markers
from ml_metrics.warehouse import MessageState, open_warehouse
from ml_metrics.warehouse.incidents import Incidents
from ml_metrics.warehouse.messages import Messages
from unit.alerts.sending import DOWN, Fake, Sending, gone, message

if TYPE_CHECKING:
    from collections.abc import Callable

    from ml_metrics.alerts import Posted
    from ml_metrics.warehouse import Warehouse

TEST, RUN = "a-test", "run-1"
OPENS = IncidentChange("report", ("a",))


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture
def here(tmp_path: Path, warehouse: Warehouse) -> Sending:
    """A deployment whose only channel is the outbox."""
    made = Sending(tmp_path, warehouse)
    made.options = {"channels": (made.outbox,)}
    return made


def posted(here: Sending, *, test: str = TEST, run: str = RUN, **how: Any) -> Posted:
    about = {"test": test, "run_key": run, "kind": how.pop("kind", MessageKind.BROKEN)}
    folder = storage.join(here.mail.storage_root, test, run)
    warehouse = here.warehouse if how.pop("recorded", True) else None
    how = {"incident": OPENS if about["kind"] is MessageKind.BROKEN else None, **how}
    return post(replace(message(), **about), mail=here.mail, warehouse=warehouse, run_folder=folder, **how)


def full(*named: object) -> NoReturn:
    raise StorageError(f"{named[-1]}: cannot be written: No space left on device")


def test_a_message_has_a_document_a_row_and_an_incident_before_it_is_sent(here: Sending) -> None:
    one, row = posted(here), here.row
    assert row.message == f"{RUN}-{one.name}"
    assert one.name == f"001-broken-{row.content_hash}"
    assert Path(row.document).exists()
    assert (row.state, row.content, row.attempts) == (MessageState.PENDING, "", 0)
    incident = here.warehouse.incidents.find_open(TEST)
    assert incident is not None
    assert (incident.opened_by, incident.run_keys) == (row.message, (RUN,))
    assert (one.mine, here.mails(), here.mail.markers.all()) == (True, [], [])


def test_only_the_process_that_wrote_a_message_may_send_it(here: Sending) -> None:
    first, second = posted(here), posted(here)
    assert (first.mine, second.mine, first.name) == (True, False, second.name)
    assert not hurry(second, here.mail, here.warehouse)
    assert here.mails() == []
    assert hurry(first, here.mail, here.warehouse)
    (path,) = here.mails()
    assert path.stem == f"run-1-{first.name}"
    assert (here.row.state, here.row.channels["outbox"].detail) == (MessageState.SENT, str(path))
    assert set(first.folder.sent(first.name)) == {"outbox"}


def test_a_process_that_was_stopped_for_a_while_leaves_its_message_to_the_senders(
    here: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = posted(here)
    monkeypatch.setattr(outgoing, "OWN_SECONDS", 0.0)
    assert not hurry(one, here.mail, here.warehouse)
    assert here.mails() == []


def test_without_time_for_a_channel_the_message_is_left_to_the_senders(here: Sending) -> None:
    assert not hurry(posted(here), here.mail, here.warehouse, outgoing.MARGIN_SECONDS)
    assert (here.mails(), here.row.attempts) == ([], 0)


def test_a_message_does_not_overtake_an_earlier_one_about_its_test(here: Sending) -> None:
    broken = posted(here)
    recovered = posted(here, run="run-2", kind=MessageKind.RECOVERED)
    other = posted(here, test="another", run="run-3")
    assert (broken.mine, recovered.mine, other.mine) == (True, False, True)
    assert broken.outgoing.message.incident == f"local/{TEST}"


STEPS: dict[str, tuple[Any, str]] = {
    "its marker": (Markers, "add"),
    "its document": (MessageFolder, "create"),
    "its incident": (Incidents, "report"),
    "its row": (outgoing, "_record"),
    "the removal of the marker": (Markers, "remove"),
}


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", STEPS)
def test_a_kill_at_any_moment_leaves_one_message(
    step: str, after: bool, here: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, name = STEPS[step]
    original: Callable[..., Any] = getattr(owner, name)

    def killed(*arguments: Any, **options: Any) -> NoReturn:
        if after:
            original(*arguments, **options)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, killed)
        with pytest.raises(Killed):
            posted(here)
    markers = here.mail.markers
    # a sender skips a marker without a document
    written = [one for one in markers.all() if one.document in MessageFolder(one.messages).names()]
    adopted = [record(MessageFolder(one.messages), one.document, markers, here.warehouse) for one in written]
    again = posted(here)
    assert len(here.rows) == 1
    assert len(adopted) <= 1
    assert markers.all() == [] or (step, after) == ("its marker", True)
    assert again.mine == (step == "its marker" or (step, after) == ("its document", False))
    incident = here.warehouse.incidents.find_open(TEST)
    assert incident is not None
    assert incident.run_keys == (RUN,)


def test_a_message_that_was_adopted_late_leaves_later_incidents_alone(
    here: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(outgoing, "_record", gone)
        one = posted(here)
    here.warehouse.incidents.report(TEST, "run 2", incident="later", fingerprint="x", reasons=("c",))
    here.warehouse.incidents.close(TEST, "run 3")
    assert record(one.folder, one.name, here.mail.markers, here.warehouse)
    assert not record(one.folder, one.name, here.mail.markers, here.warehouse)
    assert len(here.rows) == 1


def test_a_full_disk_leaves_the_message_in_the_warehouse(here: Sending, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage.Folder, "create", full)
    monkeypatch.setattr(storage.Folder, "write", full)
    one, again = posted(here), posted(here)
    assert here.row.document == ""
    assert '"subject": "message 0"' in here.row.content
    assert (one.mine, again.mine, one.in_folder) == (True, False, False)
    with pytest.raises(AlertError, match="neither the run folder nor the warehouse can be written"):
        posted(here, recorded=False)
    monkeypatch.undo()
    assert hurry(one, here.mail, here.warehouse)
    assert len(here.mails()) == 1


def test_a_message_whose_key_another_deployment_has_is_reported_and_its_marker_stays(
    here: Sending, tmp_path: Path
) -> None:
    here.post()
    with open_warehouse(f"sqlite:///{tmp_path}/warehouse.db", deployment="other") as theirs:
        other = Sending(tmp_path, theirs, options={"deployment": "other"})
        one = other.post()
        with pytest.raises(WarehouseError, match="another deployment has one with this key"):
            record(one.folder, one.name, other.mail.markers, theirs)
    assert len(other.mail.markers.all()) == 1


@pytest.mark.parametrize("disk_fills", ["before the message", "before its record"])
def test_what_a_channel_accepted_is_known_where_the_disk_is_full_and_another_channel_is_down(
    disk_fills: str, here: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.options = {"channels": (here.outbox, Fake("webhook", error=DOWN))}
    if disk_fills == "before the message":
        monkeypatch.setattr(storage.Folder, "create", full)
        one = posted(here)
    else:
        one = posted(here)
        monkeypatch.setattr(MessageFolder, "record_sent", full)
    assert not hurry(one, here.mail, here.warehouse)
    row = here.row
    assert (row.state, row.channels["outbox"].state) == (MessageState.PENDING, "delivered")
    assert [one.name for one in open_channels(row, here.mail, row.next_attempt)] == ["webhook"]
    assert row.next_attempt > here.warehouse.messages.moment(), "threads of this process may still be sending"


def test_a_warehouse_that_hangs_or_fails_delays_nothing(here: Sending, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outgoing, "RECORD_SECONDS", 0.05)
    with monkeypatch.context() as patched:
        patched.setattr(outgoing, "_record", lambda *_, **__: time.sleep(0.3))
        one = posted(here)
    assert one.mine
    (marker,) = here.mail.markers.all()
    assert (marker.messages, marker.document, marker.run_folder) == (one.folder.path, one.name, "")
    assert hurry(one, here.mail, None)
    assert len(here.mails()) == 1
    assert here.rows == []


def test_a_warehouse_that_hangs_once_the_message_has_arrived_leaves_its_record_to_a_sender(
    here: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    over, one = Event(), posted(here)

    def hangs(*_: object) -> bool:
        over.wait(5)
        return True

    with monkeypatch.context() as patched:
        patched.setattr(outgoing, "MARGIN_SECONDS", 0.0)
        patched.setattr(Messages, "finish", hangs)
        assert hurry(one, here.mail, here.warehouse, 0.2)
    over.set()
    (marker,) = here.mail.markers.all()
    record(one.folder, marker.document, here.mail.markers, here.warehouse)
    assert (here.row.state, here.row.attempts, len(here.mails())) == (MessageState.SENT, 1, 1)


def test_a_message_that_can_wait_is_held_until_another_summarises_it(here: Sending) -> None:
    one = posted(here, held_because=A_WARNING)
    assert hurry(one, here.mail, here.warehouse), "no channel is used, so nothing is left to do"
    assert (here.row.state, here.mails()) == (MessageState.HELD, [])
    digest = Message("digest-1", MessageKind.DIGEST, "digest", "t", "<p>", ())
    post(digest, mail=here.mail, warehouse=here.warehouse, summarises=(one.outgoing.message.key,))
    states = {row.message: row.state for row in here.rows}
    assert states == {"digest-1": MessageState.PENDING, one.outgoing.message.key: MessageState.SUMMARISED}
    assert here.mail.message_folder.names() == ["digest-1"], "what is about several tests has a folder of its own"
