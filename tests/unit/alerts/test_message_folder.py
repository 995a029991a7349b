"""Where messages are written, under which names, and by whom."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from ml_metrics.alerts.markers import Markers
from ml_metrics.alerts.message import MessageKind, Reason
from ml_metrics.alerts.message_folder import Accepted, MessageFolder, run_message_name
from ml_metrics.alerts.outgoing import Outgoing
from ml_metrics.errors import FileMissingError, UnreadableInputError
from unit.alerts.test_outgoing import MESSAGE, OUTGOING


@pytest.fixture
def folder(tmp_path: Path) -> MessageFolder:
    return MessageFolder.of_run(str(tmp_path))


def about(kind: MessageKind, sentence: str = "") -> Outgoing:
    return replace(OUTGOING, message=replace(MESSAGE, kind=kind, reasons=(Reason("loss", sentence),)))


def written(folder: MessageFolder, outgoing: Outgoing) -> str:
    name = run_message_name(outgoing, folder.names())
    folder.create(name, outgoing)
    return name


def test_a_message_is_written_by_one_process_and_read_by_all(folder: MessageFolder) -> None:
    with ThreadPoolExecutor(8) as threads:
        created = list(threads.map(lambda _: folder.create("001-broken-ab", OUTGOING), range(8)))
    assert created.count(True) == 1
    assert folder.names() == ["001-broken-ab"]
    assert folder.read("001-broken-ab") == OUTGOING


def test_what_the_channels_accepted_is_beside_the_message(folder: MessageFolder) -> None:
    folder.create("001-broken-ab", OUTGOING)
    assert folder.sent("001-broken-ab") == {}
    accepted = {"smtp": Accepted("rejected for b", ("b@example.com",)), "outbox": Accepted("a file")}
    folder.record_sent("001-broken-ab", accepted)
    assert folder.sent("001-broken-ab") == accepted
    assert folder.names() == ["001-broken-ab"]


def test_broken_recovered_and_broken_again_are_three_messages(folder: MessageFolder) -> None:
    story = [MessageKind.BROKEN, MessageKind.BROKEN, MessageKind.RECOVERED, MessageKind.BROKEN, MessageKind.BROKEN]
    names = [written(folder, about(kind)) for kind in story]
    assert [name[:7] for name in names] == ["001-bro", "001-bro", "002-rec", "003-bro", "003-bro"]


def test_other_content_is_another_message(folder: MessageFolder) -> None:
    names = [written(folder, about(MessageKind.WORSE, sentence)) for sentence in ("a", "b", "b", "a")]
    assert len(set(names)) == 3


def test_an_overdue_message_in_between_does_not_repeat_the_others(folder: MessageFolder) -> None:
    kinds = [MessageKind.OVERDUE, MessageKind.BROKEN, MessageKind.OVERDUE, MessageKind.BROKEN]
    names = [written(folder, about(kind)) for kind in kinds]
    assert names[0] == names[2]
    assert names[1] == names[3]


def test_a_damaged_document_is_an_error_that_names_it(folder: MessageFolder) -> None:
    for damage in ("{ torn", "[]", "{}"):
        Path(folder.path).mkdir(parents=True, exist_ok=True)
        Path(folder.document_path("001-x")).write_text(damage)
        with pytest.raises(UnreadableInputError, match=r"001-x\.json: "):
            folder.read("001-x")
    with pytest.raises(FileMissingError):
        folder.read("002-x")
    (Path(folder.path) / "001-x.sent.json").write_text('{"smtp": {}}')
    with pytest.raises(UnreadableInputError, match=r"001-x\.sent\.json: is a damaged document"):
        folder.sent("001-x")


def test_a_marker_names_a_folder_until_it_is_removed(tmp_path: Path) -> None:
    markers, others = Markers.of(str(tmp_path), "prod"), Markers.of(str(tmp_path), "dev")
    assert markers.all() == []
    markers.add("run 1", messages="m", run_folder="r")
    markers.add("run 1-001-broken-ab", messages="m", document="001-broken-ab")
    found = sorted(markers.all(), key=lambda one: one.document)
    assert [(one.messages, one.run_folder, one.document) for one in found] == [
        ("m", "r", ""),
        ("m", "", "001-broken-ab"),
    ]
    assert others.all() == []
    (Path(markers.path) / "torn.json").write_text("{")
    for one in found:
        markers.remove(one.name)
        markers.remove(one.name)
    assert markers.all() == []
