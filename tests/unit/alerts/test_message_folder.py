"""A message as a document: nothing is lost between writing and reading."""

from __future__ import annotations

import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.alerts.message import Fact, Message, MessageKind, Picture, Reason
from ml_metrics.alerts.outbox.documents import (
    Accepted,
    IncidentChange,
    MessageFolder,
    Outgoing,
    from_document,
    run_message_name,
)
from ml_metrics.core.errors import FileMissingError, StorageError, UnreadableInputError
from ml_metrics.core.values import BEGINNING_OF_TIME, END_OF_TIME
from ml_metrics.store.documents import Documents
from ml_metrics.store.markers import Markers

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
MESSAGE = Message("key", MessageKind.BROKEN, "it broke", "text", "<p>", ("a@example.com",), "a-test", "run 1")
OUTGOING = Outgoing(MESSAGE, "local", NOON)
FIRST, LAST = (end.replace(tzinfo=None) for end in (BEGINNING_OF_TIME, END_OF_TIME))
texts = st.text(max_size=20)
reasons = st.lists(st.builds(Reason, texts, texts), max_size=3).map(tuple)
messages = st.builds(
    Message,
    texts,
    st.sampled_from(MessageKind),
    texts,
    texts,
    texts,
    st.lists(texts, max_size=3).map(tuple),
    test=texts,
    reasons=reasons,
    warnings=reasons,
    links=st.lists(st.builds(Fact, texts, texts, texts), max_size=2).map(tuple),
    pictures=st.lists(st.builds(Picture, texts, st.binary(max_size=9), texts), max_size=2).map(tuple),
)
changes = st.builds(IncidentChange, texts, st.lists(texts, max_size=3).map(tuple), texts, texts)
outgoing = st.builds(
    Outgoing,
    messages,
    texts,
    st.datetimes(FIRST, LAST, timezones=st.just(UTC)),
    texts,
    st.none() | changes,
    st.lists(texts, max_size=3).map(tuple),
)


@given(outgoing)
def test_a_document_holds_the_whole_message(one: Outgoing) -> None:
    assert from_document(json.loads(json.dumps(one.document())), "x.json") == one


@pytest.mark.parametrize("damage", [{"version": 2}, {"message": {}}, {"decided_at": "noon"}, {"summarises": None}])
def test_a_damaged_document_is_an_error_that_names_it(damage: dict[str, object]) -> None:
    with pytest.raises(UnreadableInputError, match=r"^x\.json: is a "):
        from_document({**OUTGOING.document(), **damage}, "x.json")


def test_the_hash_is_of_what_is_stated() -> None:
    same = replace(OUTGOING, decided_at=NOON.replace(hour=13), message=replace(MESSAGE, key="another", html="<b>"))
    other = replace(OUTGOING, message=replace(MESSAGE, reasons=(Reason("a", "b"),)))
    recovered = replace(OUTGOING, message=replace(MESSAGE, kind=MessageKind.RECOVERED))
    assert same.content_hash == OUTGOING.content_hash
    assert len({OUTGOING.content_hash, other.content_hash, recovered.content_hash}) == 3


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


BAD, WELL, LATE, RESULT = MessageKind.BROKEN, MessageKind.RECOVERED, MessageKind.OVERDUE, MessageKind.RESULT


@pytest.mark.parametrize(
    ("story", "names"),
    [
        ([BAD, BAD, WELL, BAD, BAD], ["001-bro", "001-bro", "002-rec", "003-bro", "003-bro"]),
        ([BAD, RESULT, BAD, LATE, RESULT], ["001-bro", "002-res", "001-bro", "003-ove", "002-res"]),
    ],
    ids=["broken again is another message", "what is no alert comes between no alerts"],
)
def test_a_message_that_comes_again_is_one_message(
    folder: MessageFolder, story: list[MessageKind], names: list[str]
) -> None:
    assert [written(folder, about(kind))[:7] for kind in story] == names


@pytest.mark.parametrize("planted", ["file", "link", "pipe"])
def test_what_a_workload_planted_is_no_message_and_does_not_keep_one_from_being_written(
    folder: MessageFolder, tmp_path: Path, planted: str
) -> None:
    name = run_message_name(OUTGOING, [])
    path, other = Path(folder.document_path(name)), tmp_path / "other"
    path.parent.mkdir(parents=True)
    other.write_text(json.dumps(OUTGOING.document()))
    if planted == "file":
        path.write_bytes(other.read_bytes())
    elif planted == "link":
        path.symlink_to(other)
    else:
        os.mkfifo(path)
    path.with_name(f"{name}.sent.json").write_text('{"outbox": {"detail": "delivered", "remaining": []}}')
    assert folder.names() == []
    assert folder.create(name, OUTGOING)
    assert not folder.create(name, OUTGOING)
    assert (folder.names(), folder.read(name)) == ([name], OUTGOING)
    assert other.read_text() == json.dumps(OUTGOING.document()), "nothing was written through the link"


def test_a_message_of_another_run_is_none_of_this_one(tmp_path: Path) -> None:
    of_this, of_other = (MessageFolder.of_run(str(tmp_path / "t" / key)) for key in "ab")
    of_other.create("001-broken-ab", OUTGOING)
    shutil.copytree(of_other.path, of_this.path)
    assert (of_this.names(), of_other.names()) == ([], ["001-broken-ab"])


def test_a_run_folder_that_became_a_link_is_not_entered(tmp_path: Path) -> None:
    of_this, of_other = (MessageFolder.of_run(str(tmp_path / "runs" / "t" / key)) for key in "ab")
    of_other.create("001-broken-ab", OUTGOING)
    (tmp_path / "runs" / "t" / "a").symlink_to(tmp_path / "runs" / "t" / "b")
    assert of_this.names() == []
    with pytest.raises(StorageError):
        of_this.create("002-broken-ab", OUTGOING)
    assert of_other.names() == ["001-broken-ab"]


def test_a_damaged_document_is_an_error_that_names_it_message_folder(folder: MessageFolder) -> None:
    for damage in ("{ torn", "[]", "{}"):
        Path(folder.path).mkdir(parents=True, exist_ok=True)
        Path(folder.document_path("001-x")).write_text(damage)
        with pytest.raises(UnreadableInputError, match=r"001-x\.json: "):
            folder.read("001-x")
    with pytest.raises(FileMissingError):
        folder.read("002-x")
    (Path(folder.path) / "001-x.sent.json").write_text('{"smtp": {"detail": "sent", "remaining": []}}')
    with pytest.raises(UnreadableInputError, match=r"001-x\.sent\.json: was not written by this deployment"):
        folder.sent("001-x")


def test_a_marker_names_a_folder_and_what_its_gate_has_done_until_it_is_removed(tmp_path: Path) -> None:
    markers, others = Markers.of(str(tmp_path), "prod"), Markers.of(str(tmp_path), "dev")
    assert markers.all() == []
    run, messages = str(tmp_path / "r"), str(tmp_path / "r/m")
    markers.add_run("a", run)
    markers.add_run("b", run, undecided=True)
    markers.add_run("c", run, gate_is_next=True)
    markers.add("d", messages=messages, document="001")
    old = {"run_folder": run, "messages": "", "document": "", "at": "2026-01-02T03:04:05+00:00"}
    Documents.of_deployment(str(tmp_path), "pending", "prod").write("of-an-older-version", old)
    found = {
        one.name: (one.run_folder, one.messages, one.document, one.undecided, one.gate_is_next) for one in markers.all()
    }
    assert found == {
        "a": (run, "", "", False, False),
        "b": (run, "", "", True, False),
        "c": (run, "", "", False, True),
        "d": ("", messages, "001", False, False),
        "of-an-older-version": (run, "", "", False, False),
    }
    assert datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC) in {one.at for one in markers.all()}
    assert others.all() == []
    for name in [*found, "a"]:
        markers.remove(name)
    assert markers.all() == []


@pytest.mark.parametrize("root", ["/data/runs", "/data/runs/", "runs", ".", "../runs", "file:///data/runs"])
def test_a_marker_is_found_however_the_storage_root_is_written(
    root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    root = root.replace("/data", f"{tmp_path}/data")
    markers = Markers.of(root, "prod")
    markers.add_run("run-1", f"{root}/t/k")
    problems: list[str] = []
    assert [one.name for one in markers.all(problems.append)] == ["run-1"]
    assert problems == []


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "was not written by this deployment"),
        ('{"run_folder": "", "messages": "ROOT/t", "document": "", "at": "2026-01-01"}', "was not written by this"),
        ({"run_folder": "", "messages": "m", "document": ""}, "is a damaged marker: KeyError"),
        ({"run_folder": "", "messages": None, "document": "x", "at": "2026-01-01"}, "names None, which is not in"),
        ({"run_folder": 5, "messages": "", "document": "x", "at": "2026-01-01"}, "names 5, which is not in"),
        ({"run_folder": "/etc", "messages": "", "document": "", "at": "2026-01-01"}, "names /etc, which is not in"),
        ({"run_folder": "", "messages": "ROOT/../x", "document": "d", "at": "2026-01-01"}, "x, which is not in"),
        ({"run_folder": "", "messages": "gs://ROOT/m", "document": "d", "at": "2026-01-01"}, "m, which is not in"),
    ],
)
def test_a_marker_that_is_damaged_or_names_a_folder_elsewhere_is_reported_and_stays(
    content: str | dict[str, Any], problem: str, tmp_path: Path
) -> None:
    markers = Markers.of(str(tmp_path), "prod")
    markers.add("good", messages=str(tmp_path / "m"), document="1")
    torn = Path(markers.path) / "torn.json"
    if isinstance(content, str):
        torn.write_text(content.replace("ROOT", str(tmp_path)))
    else:
        signed = {key: value.replace("ROOT", str(tmp_path)) if isinstance(value, str) else value
                  for key, value in content.items()}  # fmt: skip
        Documents.of_deployment(str(tmp_path), "pending", "prod").write("torn", signed)
    problems: list[str] = []
    assert [one.name for one in markers.all(problems.append)] == ["good"]
    assert [problem in one and str(torn) in one for one in problems] == [True]
    assert torn.exists()


def test_markers_in_a_bucket_name_folders_of_that_bucket() -> None:
    markers = Markers.of("memory://bucket/runs", "prod")
    markers.add("good", messages="memory://bucket/runs/t/k/_ml_metrics/messages", document="1")
    markers.add("other", messages="memory://bucket/other/t", document="1")
    problems: list[str] = []
    assert [one.name for one in markers.all(problems.append)] == ["good"]
    assert len(problems) == 1


def test_the_same_content_is_another_message_once_its_incident_has_ended(folder: MessageFolder) -> None:
    first = written(folder, about(MessageKind.BROKEN))
    run = MESSAGE.run_key
    assert run_message_name(about(MessageKind.BROKEN), [first], ended=f"{run}-000-other") == first
    again = run_message_name(about(MessageKind.BROKEN), [first], ended=f"{run}-{first}")
    assert (first[:3], again) == ("001", f"002{first[3:]}")
    assert run_message_name(about(MessageKind.BROKEN), [first, again], ended=f"{run}-{first}") == again


def test_a_record_of_deliveries_of_another_form_is_an_error_that_says_what_follows(folder: MessageFolder) -> None:
    folder.create("001-broken-ab", OUTGOING)
    for content in ({"smtp": {}}, {"smtp": {"detail": "sent", "remaining": None}}, {"smtp": 3}):
        folder._documents.write("001-broken-ab.sent", content)  # as another version wrote it
        with pytest.raises(UnreadableInputError, match=r"001-broken-ab\.sent\.json: is damaged.*sent again"):
            folder.sent("001-broken-ab")
