"""A message is written durably before it is sent, whatever fails and wherever its process is killed."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from ml_metrics.alerts import MailSettings, hurry, post
from ml_metrics.alerts.channels.mail import Outbox
from ml_metrics.alerts.message import Message, MessageKind, Reason
from ml_metrics.alerts.outbox import post as outgoing
from ml_metrics.alerts.outbox.documents import IncidentChange, MessageFolder
from ml_metrics.alerts.outbox.post import record
from ml_metrics.alerts.outbox.sender import open_channels
from ml_metrics.alerts.policy import A_WARNING
from ml_metrics.core.errors import AlertError, StorageError, UndeliveredError, WarehouseError
from ml_metrics.store import storage
from ml_metrics.store.markers import Markers
from ml_metrics.warehouse import MessageState, open_warehouse
from ml_metrics.warehouse.incidents import Incidents

if TYPE_CHECKING:
    from collections.abc import Callable

    from ml_metrics.alerts import Posted
    from ml_metrics.warehouse import StoredMessage, Warehouse

TEST, RUN = "a-test", "run-1"
MESSAGE = Message(
    "",
    MessageKind.BROKEN,
    "it broke",
    "text",
    "<p>",
    ("a@example.com",),
    TEST,
    RUN,
    "a-new-user",
    "",
    (Reason("a", "b"),),
)
OPENS = IncidentChange("report", ("a",))


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture
def mail(tmp_path: Path) -> MailSettings:
    box = Outbox(f"{tmp_path}/outbox")
    return MailSettings((box,), box, storage_root=f"{tmp_path}/runs")


def posted(mail: MailSettings, warehouse: Warehouse | None, **changes: Any) -> Posted:
    folder = storage.join(mail.storage_root, TEST, RUN)
    return post(MESSAGE, mail=mail, warehouse=warehouse, run_folder=folder, incident=OPENS, **changes)


def rows(warehouse: Warehouse) -> list[StoredMessage]:
    return warehouse.messages.since(datetime.now(UTC) - timedelta(hours=1))


def mails(mail: MailSettings) -> list[Path]:
    return sorted(Path(mail.outbox.folder).glob("*.eml"))


def test_a_message_has_a_document_a_row_and_an_incident_before_it_is_sent(
    mail: MailSettings, warehouse: Warehouse
) -> None:
    one = posted(mail, warehouse)
    (row,) = rows(warehouse)
    assert row.message == f"{RUN}-{one.name}"
    assert one.name == f"001-broken-{row.content_hash}"
    assert Path(row.document).exists()
    assert (row.state, row.content, row.attempts) == (MessageState.PENDING, "", 0)
    incident = warehouse.incidents.find_open(TEST)
    assert incident is not None
    assert (incident.opened_by, incident.run_keys) == (row.message, (RUN,))
    assert (one.mine, mails(mail), mail.markers.all()) == (True, [], [])


def test_only_the_process_that_wrote_a_message_may_send_it(mail: MailSettings, warehouse: Warehouse) -> None:
    first, second = posted(mail, warehouse), posted(mail, warehouse)
    assert (first.mine, second.mine, first.name) == (True, False, second.name)
    assert not hurry(second, mail, warehouse)
    assert mails(mail) == []
    assert hurry(first, mail, warehouse)
    (path,) = mails(mail)
    assert path.stem == f"run-1-{first.name}"
    (row,) = rows(warehouse)
    assert (row.state, row.channels["outbox"].detail) == (MessageState.SENT, str(path))
    assert set(first.folder.sent(first.name)) == {"outbox"}


def test_a_process_that_was_stopped_for_a_while_leaves_its_message_to_the_senders(
    mail: MailSettings, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = posted(mail, warehouse)
    monkeypatch.setattr(outgoing, "OWN_SECONDS", 0.0)
    assert not hurry(one, mail, warehouse)
    assert mails(mail) == []


def test_a_message_does_not_overtake_an_earlier_one_about_its_test(mail: MailSettings, warehouse: Warehouse) -> None:
    broken = posted(mail, warehouse)
    recovered = post(
        replace(MESSAGE, kind=MessageKind.RECOVERED, run_key="run-2"),
        mail=mail,
        warehouse=warehouse,
        run_folder=storage.join(mail.storage_root, TEST, "run-2"),
    )
    other = post(
        replace(MESSAGE, test="another", run_key="run-3"),
        mail=mail,
        warehouse=warehouse,
        run_folder=storage.join(mail.storage_root, "another", "run-3"),
    )
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
    step: str, after: bool, mail: MailSettings, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
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
            posted(mail, warehouse)
    adopted = [record(MessageFolder(one.messages), one.document, mail.markers, warehouse) for one in written(mail)]
    again = posted(mail, warehouse)
    assert len(rows(warehouse)) == 1
    assert len(adopted) <= 1
    assert mail.markers.all() == [] or (step, after) == ("its marker", True)
    assert again.mine == (step == "its marker" or (step, after) == ("its document", False))
    incident = warehouse.incidents.find_open(TEST)
    assert incident is not None
    assert incident.run_keys == (RUN,)


def written(mail: MailSettings) -> list[Any]:
    """The markers whose documents exist: a sender skips the others."""
    return [one for one in mail.markers.all() if one.document in MessageFolder(one.messages).names()]


def test_a_message_that_was_adopted_late_leaves_later_incidents_alone(
    mail: MailSettings, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(outgoing, "_record", lambda *_, **__: (_ for _ in ()).throw(WarehouseError("down")))
        one = posted(mail, warehouse)
    warehouse.incidents.report(TEST, "run 2", incident="later", fingerprint="x", reasons=("c",))
    warehouse.incidents.close(TEST, "run 3")
    assert record(one.folder, one.name, mail.markers, warehouse)
    assert not record(one.folder, one.name, mail.markers, warehouse)
    assert len(rows(warehouse)) == 1


def test_a_full_disk_leaves_the_message_in_the_warehouse(
    mail: MailSettings, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: object, name: str, *__: object) -> NoReturn:
        raise StorageError(f"{name}: cannot be written: No space left on device")

    monkeypatch.setattr(storage.Folder, "create", full)
    monkeypatch.setattr(storage.Folder, "write", full)
    one, again = posted(mail, warehouse), posted(mail, warehouse)
    (row,) = rows(warehouse)
    assert row.document == ""
    assert '"subject": "it broke"' in row.content
    assert (one.mine, again.mine, one.in_folder) == (True, False, False)
    with pytest.raises(AlertError, match="neither the run folder nor the warehouse can be written"):
        posted(mail, None)
    monkeypatch.undo()
    assert hurry(one, mail, warehouse)
    assert len(mails(mail)) == 1


def test_a_message_whose_key_another_deployment_has_is_reported_and_its_marker_stays(
    mail: MailSettings, warehouse: Warehouse, tmp_path: Path
) -> None:
    about_all, other = replace(MESSAGE, key="digest-1"), replace(mail, deployment="other")
    post(about_all, mail=mail, warehouse=warehouse)
    with open_warehouse(f"sqlite:///{tmp_path}/warehouse.db", deployment="other") as theirs:
        one = post(about_all, mail=other, warehouse=theirs)
        with pytest.raises(WarehouseError, match="another deployment has one with this key"):
            record(one.folder, one.name, other.markers, theirs)
    assert len(other.markers.all()) == 1


class Down:
    name, secrets = "webhook", ()

    def send(self, *_: object) -> NoReturn:
        raise UndeliveredError("down", transient=True)


@pytest.mark.parametrize("disk_fills", ["before the message", "before its record"])
def test_what_a_channel_accepted_is_known_where_the_disk_is_full_and_another_channel_is_down(
    disk_fills: str, mail: MailSettings, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: str, *_: object) -> NoReturn:
        raise StorageError(f"{path}: cannot be written: No space left on device")

    mail = replace(mail, channels=(*mail.channels, Down()))
    if disk_fills == "before the message":
        monkeypatch.setattr(storage.Folder, "create", full)
        one = posted(mail, warehouse)
    else:
        one = posted(mail, warehouse)
        monkeypatch.setattr(MessageFolder, "record_sent", full)
    assert not hurry(one, mail, warehouse)
    (row,) = rows(warehouse)
    assert (row.state, row.channels["outbox"].state) == (MessageState.PENDING, "delivered")
    now = warehouse.messages.moment()
    later = row.next_attempt
    assert [one.name for one in open_channels(row, mail, later)] == ["webhook"], "the outbox has the message"
    assert row.next_attempt > now, "threads of this process may still be sending"


def test_a_warehouse_that_hangs_or_fails_delays_nothing(
    mail: MailSettings, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outgoing, "RECORD_SECONDS", 0.05)
    with monkeypatch.context() as patched:
        patched.setattr(outgoing, "_record", lambda *_, **__: time.sleep(0.3))
        one = posted(mail, warehouse)
    assert one.mine
    (marker,) = mail.markers.all()
    assert (marker.messages, marker.document, marker.run_folder) == (one.folder.path, one.name, "")
    assert hurry(one, mail, None)
    assert len(mails(mail)) == 1
    assert rows(warehouse) == []


def test_a_message_that_can_wait_is_held_from_the_start(mail: MailSettings, warehouse: Warehouse) -> None:
    one = posted(mail, warehouse, held_because=A_WARNING)
    assert [row.state for row in rows(warehouse)] == [MessageState.HELD]
    assert hurry(one, mail, warehouse), "no channel is used, so nothing is left to do"
    assert mails(mail) == []
    assert [row.state for row in rows(warehouse)] == [MessageState.HELD]


def test_a_message_about_several_tests_has_a_folder_of_its_own(mail: MailSettings, warehouse: Warehouse) -> None:
    digest = Message("digest-1", MessageKind.DIGEST, "digest", "t", "<p>", ())
    held = posted(mail, warehouse, held_because=A_WARNING)
    post(digest, mail=mail, warehouse=warehouse, summarises=(held.outgoing.message.key,))
    states = {row.message: row.state for row in rows(warehouse)}
    assert states == {"digest-1": MessageState.PENDING, held.outgoing.message.key: MessageState.SUMMARISED}
    assert mail.message_folder.names() == ["digest-1"]
