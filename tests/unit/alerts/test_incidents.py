"""Several tests with one cause are one incident; tests with different causes never are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ml_metrics.alerts import hurry, runs, send_due_digests
from ml_metrics.alerts.mass_failures import post_updates
from ml_metrics.core.errors import WarehouseError
from ml_metrics.core.model import JobStatus
from ml_metrics.warehouse import KnownTest, open_warehouse
from ml_metrics.warehouse.incidents import Incidents
from ml_metrics.warehouse.messages import Messages
from unit.alerts.many_tests import IMAGE, NO_IMAGE, Tests
from unit.alerts.sending import gone

CAUSE = f"image cannot be pulled: {IMAGE}"
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def update(tests: Tests, after: timedelta = timedelta(0)) -> int:
    posted = post_updates(tests.warehouse, tests.mail, datetime.now(UTC) + after)
    for one in posted:
        hurry(one, tests.mail, tests.warehouse)
    return len(posted)


def test_tests_that_fail_for_one_cause_are_reported_together(tests: Tests) -> None:
    for name in "abcd":
        tests.ended(name, **NO_IMAGE)
    assert len(tests.sent.messages) == 1
    assert f"Cause: {CAUSE}." in " ".join(tests.sent.messages[0].text.split())
    assert update(tests) == 1
    assert tests.sent.subjects[1] == f"3 tests failed: {CAUSE}"
    assert [one.name for one in tests.sent.messages[1].links[1:]] == ["b", "c", "d"]
    assert update(tests) == 0
    assert {one.cause for one in tests.warehouse.incidents.all_open().values()} == {CAUSE}


def test_an_update_is_written_once_and_the_next_one_later(tests: Tests) -> None:
    for name in "ab":
        tests.ended(name, **NO_IMAGE)
    assert update(tests) == 1
    tests.ended("c", **NO_IMAGE)
    assert update(tests, 5 * MINUTE) == 0
    assert update(tests, 16 * MINUTE) == 1
    assert tests.sent.subjects[2] == f"1 test failed: {CAUSE}"
    assert send_due_digests(tests.warehouse, tests.mail, datetime.now(UTC) + timedelta(hours=3)) == 0


def test_an_update_of_one_cause_delays_none_of_another(tests: Tests) -> None:
    other = {**NO_IMAGE, "image": f"{IMAGE}-2"}
    for name in "ab":
        tests.ended(name, **NO_IMAGE)
    assert update(tests) == 1
    tests.ended("c", **NO_IMAGE)
    for name in "xy":
        tests.ended(name, **other)
    assert update(tests, 5 * MINUTE) == 1
    assert tests.sent.subjects[-1] == f"1 test failed: {CAUSE}-2"


def test_of_two_updates_on_both_sides_of_a_quarter_of_an_hour_one_is_written(
    tests: Tests, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second is written before the first has a row, and has one test more."""
    tests.ended("a", **NO_IMAGE)
    tests.ended("b", **NO_IMAGE)
    later = datetime.now(UTC).replace(minute=29, second=59)
    with monkeypatch.context() as patch:
        patch.setattr(Messages, "existing", gone)
        post_updates(tests.warehouse, tests.mail, later)
    tests.ended("c", **NO_IMAGE)
    post_updates(tests.warehouse, tests.mail, later + timedelta(seconds=2))
    (first,) = tests.mail.message_folder.names()
    assert len(tests.mail.message_folder.read(first).summarises) == 1
    assert [one.test for one in tests.warehouse.messages.held(later - HOUR)] == ["c"]
    post_updates(tests.warehouse, tests.mail, later + HOUR)
    assert len(tests.mail.message_folder.names()) == 2
    assert tests.warehouse.messages.held(later - HOUR) == []


def test_recoveries_are_in_the_updates_and_the_last_one_states_that_all_have_recovered(tests: Tests) -> None:
    for name in "abc":
        tests.ended(name, **NO_IMAGE)
    update(tests)
    tests.ended("a")
    assert update(tests, 16 * MINUTE) == 1
    tests.ended("b")
    tests.ended("c")
    assert update(tests, 32 * MINUTE) == 1
    assert tests.sent.subjects[2:] == [f"1 test recovered: {CAUSE}", f"2 tests recovered, and so have all: {CAUSE}"]
    assert tests.warehouse.incidents.all_open() == {}


def test_a_test_alone_with_its_cause_recovers_at_once(tests: Tests) -> None:
    tests.ended("a", **NO_IMAGE)
    tests.ended("a")
    assert tests.sent.subjects == [
        "a failed: never started: the image cannot be pulled",
        "a recovered: the job succeeds again",
    ]


def test_a_member_that_fails_for_another_reason_is_reported_at_once(tests: Tests) -> None:
    tests.ended("a", **NO_IMAGE)
    tests.ended("b", **NO_IMAGE)
    assert len(tests.sent.messages) == 1
    tests.ended("b", status=JobStatus.FAILURE, failure_reason="ExitCode:3")
    assert tests.sent.subjects[1:] == ["b got worse: exit code 3"]


def test_independent_failures_are_never_reported_together(tests: Tests) -> None:
    for number in range(12):
        tests.ended(f"t{number}", status=JobStatus.MISSED, failure_reason="ErrImagePull", image=f"gcr.io/x:{number}")
    for number in range(12):
        tests.ended(f"u{number}", status=JobStatus.FAILURE, failure_reason="ExitCode:1", image=IMAGE)
    assert len(tests.sent.messages) == 24
    assert update(tests) == 0


def test_a_test_of_another_deployment_never_joins(tests: Tests, tmp_path: Path) -> None:
    tests.ended("a", **NO_IMAGE)
    with open_warehouse(f"sqlite:///{tmp_path}/warehouse.db", deployment="dev") as dev:
        others = Tests(tmp_path, dev, "dev")
        others.ended("b", **NO_IMAGE)
        assert len(others.sent.messages) == 1


def test_of_gates_that_end_at_the_same_moment_one_is_the_first(tests: Tests, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as racing:
        racing.setattr(Incidents, "of_cause", lambda *_: [])
        for name in "abc":
            tests.ended(name, **NO_IMAGE)
    assert tests.sent.subjects == ["a failed: never started: the image cannot be pulled"]
    assert update(tests) == 1


def test_a_test_that_was_the_first_and_could_not_tell_is_the_first_again(
    tests: Tests, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its gate ended after it had claimed the cause, and before it wrote its message."""
    with monkeypatch.context() as ends:
        ends.setattr(runs, "post", gone)
        with pytest.raises(WarehouseError):
            tests.ended("a", **NO_IMAGE)
    for name in "ab":
        tests.ended(name, **NO_IMAGE)
    assert tests.sent.subjects == ["a failed: never started: the image cannot be pulled"]


def test_a_test_in_quarantine_never_joins(tests: Tests) -> None:
    tests.ended("a", **NO_IMAGE)
    tests.warehouse.quarantines.set("b", until=datetime.now(UTC) + timedelta(days=1), reason="a disk", by="vera")
    tests.ended("b", **NO_IMAGE)
    assert len(tests.sent.messages) == 1
    assert update(tests) == 0


def test_another_reason_of_the_job_is_news_and_the_same_one_is_not(tests: Tests) -> None:
    for reason in ("ImagePullBackOff", "ErrImagePull"):
        tests.ended("a", status=JobStatus.MISSED, failure_reason=reason, image=IMAGE)
    for code in (3, 3, 4):
        tests.ended("a", status=JobStatus.FAILURE, failure_reason=f"ExitCode:{code}")
    assert tests.sent.subjects == [
        "a failed: never started: the image cannot be pulled",
        "a got worse: exit code 3",
        "a got worse: exit code 4",
    ]


def test_an_outage_of_many_tests_is_one_message_to_each_list_and_one_on_duty(tests: Tests) -> None:
    tests.options = {"mass_failure_tests": 8, "duty": ("duty@example.com",)}
    for number in range(12):
        tests.ended(f"t{number}", emails=(f"list{number % 3}@example.com",), **NO_IMAGE)
    update(tests)
    assert len([one for one in tests.sent.messages if one.kind == "broken"]) == 1
    (mass,) = [one for one in tests.sent.messages if one.kind == "mass"]
    assert mass.recipients == ("duty@example.com",)
    assert mass.subject == f"[ML Metrics] 8 tests failed within an hour: {CAUSE}"
    assert f"Cause of 8 tests: {CAUSE}." in " ".join(mass.text.split())
    updates = [one for one in tests.sent.messages if one.kind == "incident"]
    assert sorted(one.recipients[0] for one in updates) == [f"list{number}@example.com" for number in range(3)]
    assert len(tests.sent.messages) == 5
    assert send_due_digests(tests.warehouse, tests.mail, datetime.now(UTC)) == 3
    for number in range(12):
        tests.ended(f"t{number}", emails=(f"list{number % 3}@example.com",))
    assert update(tests, timedelta(hours=2)) == 1
    assert tests.sent.subjects[-1] == "the mass failure is over: 0 of 12 tests still fail"
    assert tests.sent.messages[-1].incident == mass.incident
    assert update(tests, timedelta(hours=4)) == 0
    assert send_due_digests(tests.warehouse, tests.mail, datetime.now(UTC)) == 3


def test_updates_and_a_mass_failure_state_what_each_regression_costs(tests: Tests) -> None:
    for name in "abc":
        tests.ended(name, **NO_IMAGE)
    for name, cost in (("b", "8.96 USD a week: 60 s more"), ("c", "missing: no price")):
        incident = {"reasons": ["out_of_bounds:loss"], "cause": CAUSE, "cost": cost}
        tests.warehouse.incidents.report(name, f"a later run of {name}", fingerprint="f", **incident)
    tests.options = {"mass_failure_tests": 3, "duty": ("duty@example.com",)}
    update(tests)
    for kind in ("mass", "incident"):
        (sent,) = [one for one in tests.sent.messages if one.kind == kind]
        text = " ".join(sent.text.split())
        assert "; costs 8.96 USD a week" in text
        assert "; cost missing" in text
        assert text.count("; cost") == 2


def test_a_share_of_the_tests_is_a_mass_failure_from_five_on(tests: Tests) -> None:
    tests.options = {"mass_failure_percent": 30}
    for number in range(5):
        tests.ended(f"t{number}", status=JobStatus.MISSED, failure_reason="E", image=f"x:{number}")
        assert len([one for one in tests.sent.messages if one.kind == "mass"]) == (number == 4)


def test_many_failing_tests_of_one_folder_hold_back_no_message_about_another(tests: Tests) -> None:
    """Anybody can write five tests that fail."""
    tests.options = {"mass_failure_tests": 8}
    names = [*(f"hostile-{number}" for number in range(9)), "innocent"]
    known = {name: KnownTest(name, file=f"/tests/{name.partition('-')[0]}/{name}.yaml", since=1) for name in names}
    tests.warehouse.known_tests.replace(known, 0)
    for name in names:
        tests.ended(name, status=JobStatus.MISSED, failure_reason="E", image=name)
    about = [one.test for one in tests.sent.messages if one.kind == "broken"]
    assert [one.kind for one in tests.sent.messages].count("mass") == 1
    assert about == [*names[:8], "innocent"], "a ninth of the same folder waits"
