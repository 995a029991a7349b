"""A mass failure is one message on duty; whoever is not told at once is told by it, and by the digest."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ml_metrics import TestDefinition
from ml_metrics.alerts import hurry, mass_failures, post
from ml_metrics.alerts.mass_failures import post_updates, what_failed
from ml_metrics.alerts.message import Message, MessageKind
from ml_metrics.alerts.policy import PART_OF_MASS_FAILURE
from ml_metrics.alerts.watching import Change, message_about
from ml_metrics.warehouse import StoredMessage, known_test, messages
from unit.alerts.many_tests import Clocked, clocked
from unit.alerts.sending import gone

DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)
NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)
FEWEST = 3
"""The tests that make a mass failure here."""
DUTY = ("duty@example.com",)


class Night(Clocked):
    """A deployment whose tests have an owner each."""

    held: frozenset[str] = frozenset()

    def fails(self, name: str, **more: Any) -> str:
        self.now += timedelta(seconds=1)
        return super().fails(name, emails=(f"{name}@example.com",), **more)

    def passes(self, name: str, **more: Any) -> None:
        self.now += timedelta(seconds=1)
        super().passes(name, emails=(f"{name}@example.com",), **more)

    def sender(self) -> None:
        for posted in post_updates(self.warehouse, self.mail, self.now):
            hurry(posted, self.mail, self.warehouse)

    def newly_held(self) -> set[str]:
        """The tests whose message has begun to wait for a mass failure."""
        rows = self.warehouse.messages.waiting(NOON - DAY)
        waiting = {one.message: one.test for one in rows if one.held_because == PART_OF_MASS_FAILURE}
        new = {test for key, test in waiting.items() if key not in self.held}
        self.held |= waiting.keys()
        return new

    @property
    def on_duty(self) -> list[Message]:
        return [one for one in self.sent.messages if one.recipients == DUTY]

    @property
    def is_duty_called(self) -> bool:
        """Whether the person on duty believes that a mass failure goes on."""
        return bool(self.on_duty) and self.on_duty[-1].kind is not MessageKind.RECOVERED

    def told(self) -> Counter[str]:
        """Count the reports of each failure to owners. A digest also lists failures that were reported before."""
        found: Counter[str] = Counter()
        for message in self.sent.messages:
            if message.recipients != DUTY:
                text = re.sub(r"(\* recovered: .*)ExitCode:", r"\1exit code ", message.text)
                told = re.sub(r"\* (?:needs a person|recovered): .*", "", f"{message.subject} {text}")
                listed = {code for code in re.findall(r"exit code \d+", text) if not found[code]}
                found.update(listed | set(re.findall(r"exit code \d+", told)))
        return found


@contextmanager
def night(now: datetime = NOON) -> Iterator[Night]:
    with clocked(Night, now=now, options={"mass_failure_tests": FEWEST, "duty": DUTY}) as made:
        yield made


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("fails"), st.sampled_from("abcde")),
        st.tuples(st.just("passes"), st.sampled_from("abcde")),
        st.tuples(st.just("wait"), st.sampled_from([5, 20, 50, 61])),
        st.just(("sender", "")),
        st.just(("digest", "")),
    ),
    max_size=14,
)
AGAIN = [*(("fails", one) for one in "abc"), *(("passes", one) for one in "abc"), ("sender", "")]


@given(events=EVENTS, minute=st.sampled_from([0, 30, 58]))
@example(events=[*AGAIN, *AGAIN, *AGAIN], minute=0)
@example(events=[*(("fails", one) for one in "abca")], minute=0)
@example(events=[*(("fails", one) for one in "abca"), ("digest", "")], minute=0)
@example(events=[*AGAIN, ("wait", 5), ("sender", "")], minute=58)
@example(events=[*(("fails", one) for one in "acdb"), ("passes", "b")], minute=0)
@example(
    events=[("fails", "d"), ("wait", 50), ("fails", "c"), ("wait", 20), *AGAIN[1:2], ("passes", "b"), AGAIN[0]],
    minute=0,
)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_fails_and_recovers_each_owner_is_told_once_and_each_mass_failure_is_reported_once(
    events: list[tuple[str, str | int]], minute: int
) -> None:
    with night(NOON + minute * MINUTE) as made:
        reported: Counter[str] = Counter()
        opened: dict[str, datetime] = {}
        failing: set[str] = set()
        since = NOON - HOUR
        for event, what in events:
            heard, was_called = len(made.on_duty), made.is_duty_called
            if event == "fails":
                if what not in failing:
                    opened[str(what)] = made.now + timedelta(seconds=1)
                failing.add(str(what))
                reported[made.fails(str(what))] += 1
            elif event == "passes":
                made.passes(str(what))
                failing.discard(str(what))
            elif event == "wait":
                made.now += int(what) * MINUTE
            else:
                getattr(made, event)()
            assert not made.newly_held() or was_called, "a message waits for one that nobody gets"
            for message in made.on_duty[heard:]:
                if message.kind is MessageKind.RECOVERED:
                    since, opened = made.now, {}
            fresh = [one for one, at in opened.items() if at > max(since, made.now - HOUR)]
            if len(failing.intersection(fresh)) >= FEWEST and event in {"fails", "sender"}:
                assert made.is_duty_called, "many tests failed, and nobody on duty knows"
            if [one for one in made.on_duty[heard:] if one.kind is MessageKind.MASS]:
                assert len(opened) >= FEWEST, "the same failures are reported as a second mass failure"
        made.now += HOUR
        made.digest()
        told = made.told()
        assert told == reported, "each failure is told to its owner once"


def break_tests(made: Night, names: str = "abc") -> list[str]:
    return [made.fails(name) for name in names]


def test_a_mass_failure_of_more_than_a_day_is_over_when_its_tests_recover() -> None:
    """A service that was paged keeps its entry until then."""
    with night() as made:
        break_tests(made)
        made.now += 25 * HOUR
        made.sender()
        break_tests(made, "d")
        for name in "abcd":
            made.passes(name)
        made.sender()
        made.sender()
        assert [one.kind for one in made.on_duty] == [MessageKind.MASS, MessageKind.RECOVERED]
        assert made.on_duty[1].subject.endswith("the mass failure is over: 0 of 3 tests still fail")
        assert made.on_duty[0].incident == made.on_duty[1].incident


def test_what_failed_is_listed_for_each_test_and_a_cause_is_stated_once() -> None:
    with night() as made:
        made.options["mass_failure_tests"] = 4
        break_tests(made, "ab")
        made.passes("b")
        break_tests(made, "cde")
        (mass,) = made.on_duty
        assert mass.subject == "[ML Metrics] 5 tests failed within an hour: a, b and 3 more"
        assert re.findall(r"^\* .*", mass.text, re.MULTILINE) == [
            "* a: exit code 1",
            "* c: exit code 3",
            "* d: exit code 4",
            "* e: exit code 5",
            "* b: has recovered",
        ]
        assert mass.text.lower().count("cause") == 1
        assert "No common cause is known." in mass.text


def test_what_failed_in_the_first_test_is_also_listed_a_day_later() -> None:
    with night() as made:
        made.fails("a")
        made.now += 50 * MINUTE
        break_tests(made, "bc")
        made.now += 23.5 * HOUR
        break_tests(made, "d")
        made.sender()
        assert [one.kind for one in made.on_duty] == [MessageKind.MASS, MessageKind.INCIDENT]
        lines = re.findall(r"^\* .*", made.on_duty[-1].text, re.MULTILINE)
        assert lines == [f"* {test}: exit code {number}" for number, test in enumerate("abcd", 1)]


def test_a_file_that_broke_beside_others_is_named_with_its_own_problem() -> None:
    """One message tells the owner of several files about all of them."""
    with night() as made:
        tests = [known_test(TestDefinition(name=one, image="i", command=("c",), owner="o"), NOON) for one in "abc"]
        broken = [replace(one, problems={"file:unreadable": f"{one.test}.yaml: line 1: no"}) for one in tests]
        changes = [Change(one, ("file:unreadable",)) for one in broken]
        post(message_about(changes, DUTY, made.mail, "1"), mail=made.mail, warehouse=made.warehouse)
        (told,) = made.warehouse.messages.of_occasion(MessageKind.FILE, NOON - DAY)
        for one in "abc":
            reasons = {"fingerprint": "f", "reasons": ["file:unreadable"], "at": made.now}
            made.warehouse.incidents.report(f"definition:{one}", told.message, incident=told.message, **reasons)
        made.sender()
        lines = re.findall(r"^\* .*", made.on_duty[-1].text, re.MULTILINE)
        assert lines == [f"* {one}: its file cannot be read" for one in "abc"]


@pytest.mark.parametrize("more", [1, 2])
def test_tests_that_are_not_listed_are_counted(more: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mass_failures, "MAX_NAMED", 4 - more)
    with night() as made:
        made.options["mass_failure_tests"] = 4
        break_tests(made, "abcd")
        (mass,) = made.on_duty
        listed = mass.text.count("\n* ")
        assert listed + int(re.findall(r"And (\d+) more", mass.text)[0]) == 4


def test_the_cause_of_most_tests_is_first_and_further_ones_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mass_failures, "MAX_NAMED", 2)
    with night() as made:
        for name, cause in (("a", ""), ("b", ""), ("c", ""), ("d", "image y"), ("e", "image x"), ("f", "image x")):
            reasons = {"fingerprint": "f", "reasons": ["job_status:"], "at": made.now, "cause": cause}
            made.warehouse.incidents.report(name, f"a run of {name}", **reasons)
        made.sender()
        (mass,) = made.on_duty
        text = " ".join(mass.text.split())
        assert "Cause of 2 tests: image x. Cause of 1 test: image y. And 1 more cause. And 4 more: " in text
        assert [one.name for one in mass.links if one.name in "abcdef"] == ["e", "f"]


def test_a_new_mass_failure_is_reported_while_one_of_days_ago_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    with night() as made:
        break_tests(made, "abcde")
        made.now += 25 * HOUR
        with monkeypatch.context() as patch:
            patch.setattr(mass_failures, "post", gone)
            break_tests(made, "xyz")
        made.sender()
        assert [one.kind for one in made.on_duty] == [MessageKind.MASS] * 2
        assert made.on_duty[1].subject.endswith("3 tests failed within an hour: x, y and 1 more")


def unrecorded(made: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a sender write what is due, and the warehouse be gone before it has a row."""
    with monkeypatch.context() as patch:
        patch.setattr(messages.Messages, "add", gone)
        made.sender()


@pytest.mark.parametrize("seconds", [2, 3400])
def test_of_two_that_report_one_mass_failure_on_both_sides_of_a_full_hour_one_does(
    seconds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with night(NOON - timedelta(seconds=5)) as made:
        with monkeypatch.context() as patch:
            patch.setattr(mass_failures, "post", gone)
            break_tests(made)
        unrecorded(made, monkeypatch)
        made.now += timedelta(seconds=seconds)
        made.sender()
        assert len(made.mail.message_folder.names()) == 1
        assert [one.occasion for one in made.warehouse.messages.of_occasion(MessageKind.MASS, NOON - DAY)] == ["mass"]


def test_of_two_updates_on_both_sides_of_a_full_hour_one_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    with night(NOON - timedelta(seconds=5)) as made:
        break_tests(made, "abcd")
        made.passes("a")
        made.now = NOON + HOUR - timedelta(seconds=1)
        unrecorded(made, monkeypatch)
        made.now += timedelta(seconds=2)
        made.sender()
        made.passes("b")
        assert len(made.mail.message_folder.names()) == 2
        made.now += HOUR
        made.sender()
        assert len(made.mail.message_folder.names()) == 3


def test_a_mass_failure_that_an_older_version_reported_is_followed() -> None:
    with night() as made:
        break_tests(made, "ab")
        made.warehouse.messages.add(
            StoredMessage(
                message="mass-local-2026112712",
                run_key="",
                test="",
                owner="",
                occasion="mass",
                content_hash="",
                timestamp=made.now,
                recipients=DUTY,
                subject="3 tests failed within an hour",
                reasons=(),
            )
        )
        break_tests(made, "c")
        assert made.newly_held() == {"c"}
        for name in "abc":
            made.passes(name)
        made.sender()
        assert made.warehouse.messages.existing(["mass-local-2026112712-over"])


def test_what_failed_is_the_first_reason_and_how_many_follow_without_warnings() -> None:
    reasons = ("loss rose", "accuracy fell", "Warning: step_time is odd", "goodput fell")
    message = StoredMessage("a-001", "a", "a-test", "vera", "broken", "ab", NOON, (), "subject", reasons)
    assert what_failed(message, None) == "loss rose (+2 more)"
