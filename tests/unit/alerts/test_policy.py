"""Which channels get a message: a table of every kind, sent at once and held for each reason."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.alerts.message import Message, MessageKind
from ml_metrics.alerts.policy import (
    ACKNOWLEDGED,
    PART_OF_MASS_FAILURE,
    Limits,
    Notification,
    change_to_report,
    channels_for,
    due_notification,
)

due = partial(due_notification, reported=None, acknowledged=False, passed=False, limits=Limits())


def test_a_warning_is_held_for_the_digest() -> None:
    assert due([], ["a"], passed=True) == Notification(MessageKind.WARNING, "a warning")


def test_a_quarantined_test_has_no_notifications() -> None:
    quarantined = Limits(quarantined=True)
    assert due(["a"], ["b"], limits=quarantined) is None
    assert due([], [], reported={"a"}, passed=True, limits=quarantined) is None


def test_after_acknowledgement_new_problems_are_held_and_recovery_is_sent() -> None:
    acknowledged = partial(due, reported={"a"}, acknowledged=True)
    assert acknowledged(["b"], []) == Notification(MessageKind.WORSE, ACKNOWLEDGED)
    assert acknowledged([], [], passed=True) == Notification(MessageKind.RECOVERED)


def test_other_tests_that_name_the_same_owner_do_not_hold_back_a_tests_first_message() -> None:
    others = Limits(mails_this_hour=10_000, mails_about_test=0, mails_per_hour=10)
    assert due(["a"], [], limits=others) == Notification(MessageKind.BROKEN)
    none = Limits(mails_this_hour=0, mails_about_test=0, mails_per_hour=0)
    assert due(["a"], [], limits=none) == Notification(MessageKind.BROKEN, "the owner got 0 messages within an hour")


PROBLEMS = st.frozensets(st.sampled_from("abc"))


@given(st.lists(st.tuples(PROBLEMS, st.booleans()), max_size=40))
def test_every_problem_is_reported_once_per_incident_and_every_incident_ends_once(
    runs: list[tuple[frozenset[str], bool]],
) -> None:
    reported: set[str] | None = None
    for problems, succeeded in runs:
        passed = succeeded and not problems
        kind = change_to_report(problems, reported, passed=passed)
        if reported is None:
            assert kind is (MessageKind.BROKEN if problems else None)
        else:
            expected = MessageKind.WORSE if problems - reported else MessageKind.RECOVERED if passed else None
            assert kind is expected
        if kind is MessageKind.RECOVERED:
            reported = None
        elif kind is not None:
            reported = (reported or set()) | problems
        assert reported is None or problems <= reported


@pytest.mark.parametrize(
    ("problems", "kind"),
    [
        (["job_status:ExitCode:3"], None),
        (["job_status:"], None),
        (["job_status:ExitCode:3", "missing:loss"], "worse"),
        (["missing:loss"], "worse"),
    ],
)
def test_an_incident_of_an_older_version_has_one_name_for_every_problem_of_the_job(
    problems: list[str], kind: str | None
) -> None:
    assert change_to_report(problems, ["job_status:"], passed=False) == kind
    assert change_to_report(["job_status:b"], ["job_status:a"], passed=False) == "worse", "only that one name"


def test_ten_messages_an_hour_are_sent_unless_the_owner_has_another_limit() -> None:
    sent = [due(["a"], [], limits=Limits(mails_this_hour=one, mails_about_test=1)) for one in (0, 9, 10, 11)]
    assert [one is not None and not one.held_because for one in sent] == [True, True, False, False]
    first = Limits(mails_this_hour=1, mails_about_test=0, mails_per_hour=1)
    assert due(["a"], [], limits=first) == Notification(MessageKind.BROKEN)
    assert due(["a"], [], limits=replace(first, mails_about_test=1)) == Notification(
        MessageKind.BROKEN, "the owner got 1 messages within an hour"
    )


MAIL = {"outbox", "smtp", "sendgrid"}
PER_TEST = {"github", "error_reporting", "pagerduty", "opsgenie"}
CHATS = {"webhook", "teams", "google_chat"}
ALL = MAIL | PER_TEST | CHATS


@dataclass(frozen=True)
class Named:
    name: str
    secrets: tuple[str, ...] = ()

    def send(self, message: Message, timeout: float) -> str:
        raise NotImplementedError(f"{message.key} {timeout}")


def chosen(kind: MessageKind, held_because: str = "", connection: str = "") -> set[str]:
    channels = [Named(name + connection) for name in sorted({*ALL, "mlflow"})]
    found = channels_for(channels, kind, held_because)
    assert found == [one for one in channels if one in found], "in their order"
    return {one.name.removesuffix(connection) for one in found}


EXPECTED = {
    **dict.fromkeys(MessageKind, ALL),
    **dict.fromkeys((MessageKind.TRIAL, MessageKind.COST, MessageKind.ANSWER), MAIL),
    **dict.fromkeys((MessageKind.DIGEST, MessageKind.HEARTBEAT), MAIL | CHATS),
    MessageKind.RESULT: {"mlflow"},
}


@pytest.mark.parametrize("connection", ["", ":of_a_team"])
@pytest.mark.parametrize("kind", MessageKind)
def test_a_message_that_is_sent_at_once_goes_to_the_channels_of_its_kind(kind: MessageKind, connection: str) -> None:
    assert chosen(kind, connection=connection) == EXPECTED[kind]


@pytest.mark.parametrize("because", ["a warning", "a condition that does not decide", ACKNOWLEDGED])
@pytest.mark.parametrize("kind", MessageKind)
def test_what_can_wait_goes_to_no_channel_but_a_tracking_server(kind: MessageKind, because: str) -> None:
    assert chosen(kind, because) == ({"mlflow"} if kind is MessageKind.RESULT else set())


@pytest.mark.parametrize(
    "because",
    ["part of an incident: no node fits", PART_OF_MASS_FAILURE, "the owner got 10 messages within an hour"],
)
@pytest.mark.parametrize("kind", [MessageKind.BROKEN, MessageKind.WORSE, MessageKind.RECOVERED, MessageKind.OVERDUE])
def test_what_waits_for_a_digest_is_on_the_channels_that_have_an_entry_for_each_test(
    kind: MessageKind, because: str
) -> None:
    assert chosen(kind, because) == PER_TEST
