"""A message as a document: nothing is lost between writing and reading."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.alerts.message import Fact, Message, MessageKind, Picture, Reason
from ml_metrics.alerts.outbox.documents import IncidentChange, Outgoing, from_document
from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.core.values import BEGINNING_OF_TIME, END_OF_TIME

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


@pytest.mark.parametrize(
    "damage",
    [{"version": 2}, {"message": {}}, {"decided_at": "noon"}, {"incident": {"kind": "close"}}, {"summarises": None}],
)
def test_a_damaged_document_is_an_error_that_names_it(damage: dict[str, object]) -> None:
    with pytest.raises(UnreadableInputError, match=r"^x\.json: is a "):
        from_document({**OUTGOING.document(), **damage}, "x.json")


def test_the_hash_is_of_what_is_stated() -> None:
    same = replace(OUTGOING, decided_at=NOON.replace(hour=13), message=replace(MESSAGE, key="another", html="<b>"))
    other = replace(OUTGOING, message=replace(MESSAGE, reasons=(Reason("a", "b"),)))
    recovered = replace(OUTGOING, message=replace(MESSAGE, kind=MessageKind.RECOVERED))
    assert same.content_hash == OUTGOING.content_hash
    assert len({OUTGOING.content_hash, other.content_hash, recovered.content_hash}) == 3


def test_the_fingerprint_of_an_incident_is_of_its_problems_alone() -> None:
    change = IncidentChange("report", ("a", "b"), "a cause", "an incident", "now", "2 USD")
    assert change.fingerprint == IncidentChange("close", ("a", "b")).fingerprint
    others = [("b", "a"), ("a",), ("ab",), ("a", "b", "c"), ()]
    assert len({change.fingerprint, *(IncidentChange("report", one).fingerprint for one in others)}) == 6


def test_a_warning_is_part_of_the_content_and_a_key_is_not() -> None:
    warned = replace(OUTGOING, message=replace(MESSAGE, warnings=(Reason("a", "b"),)))
    assert warned.content_hash != OUTGOING.content_hash
    assert OUTGOING.with_key("k").message == replace(MESSAGE, key="k")
    assert OUTGOING.with_key("k").content_hash == OUTGOING.content_hash


def test_a_time_without_a_zone_is_utc() -> None:
    assert from_document({**OUTGOING.document(), "decided_at": "2026-01-02T12:00:00"}, "x").decided_at == NOON
