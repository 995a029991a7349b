"""The state of an incident depends on when messages were decided, not on when, or how often, they were recorded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from ml_metrics.alerts.policy import change_to_report
from ml_metrics.warehouse import Warehouse, open_warehouse
from unit.warehouse.records import TEST

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Decided:
    """A message that was decided: about problems, or about the recovery if there are none."""

    number: int
    problems: frozenset[str]
    incident: str = ""
    """The one that was open."""

    def record(self, warehouse: Warehouse) -> None:
        at, run = NOON + timedelta(minutes=self.number), f"run {self.number}"
        if not self.problems:
            warehouse.incidents.close(TEST, run, incident=self.incident, at=at)
            return
        reasons = sorted(self.problems)
        warehouse.incidents.report(
            TEST, run, incident=f"message {self.number}", fingerprint=" ".join(reasons), reasons=reasons, at=at
        )


def decided(warehouse: Warehouse, number: int, problems: frozenset[str]) -> Decided | None:
    """Return the message that a run leads to."""
    incident = warehouse.incidents.find_open(TEST)
    kind = change_to_report(problems, incident.reported if incident else None, passed=not problems)
    return Decided(number, problems, incident.opened_by if incident else "") if kind else None


def say(warehouse: Warehouse, step: str) -> None:
    """What users say changes neither what is open nor what was reported, and the newest word counts."""
    before = warehouse.incidents.find_open(TEST)
    if before is None:
        assert not warehouse.incidents.assign(TEST, step, by="a new user")
        return
    if step.startswith("it is"):
        said = {"is_regression": step == "it is one", "assessed_by": "a new user"}
        warehouse.incidents.assess(TEST, before.opened_by, is_regression=step == "it is one", by="a new user")
    else:
        said = {"assigned_to": step, "assigned_by": "a new user"}
        warehouse.incidents.assign(TEST, step, by="a new user")
    after = warehouse.incidents.find_open(TEST)
    assert after == replace(before, **said, assigned_at=after.assigned_at if after else None)


STEPS = st.lists(
    st.one_of(
        st.frozensets(st.sampled_from("abc"), max_size=2),
        st.integers(min_value=0, max_value=20),
        st.sampled_from(["vera", "otto", "it is one", "it is none"]),
    ),
    max_size=10,
)


@settings(max_examples=25, deadline=None)
@given(STEPS, st.data())
def test_messages_may_be_recorded_late_in_another_order_and_twice(
    steps: list[frozenset[str] | int | str], data: st.DataObject
) -> None:
    """A step is a run that ends, a message that is recorded, perhaps again, or what a user says about the incident."""
    messages: list[Decided] = []
    with open_warehouse("sqlite://") as warehouse:
        for number, step in enumerate(steps):
            if isinstance(step, frozenset):
                message = decided(warehouse, number, step)
                messages += [message] if message else []
            elif isinstance(step, str):
                say(warehouse, step)
            elif messages:
                messages[step % len(messages)].record(warehouse)
        for one in data.draw(st.permutations(messages)):
            one.record(warehouse)
        incident = warehouse.incidents.find_open(TEST)
        assert (incident is not None) == bool(messages and messages[-1].problems)
        if incident is not None:
            assert messages[-1].problems <= set(incident.reported)
        for one in messages:
            one.record(warehouse)
        assert warehouse.incidents.find_open(TEST) == incident


def test_each_further_problem_of_one_run_is_recorded(warehouse: Warehouse) -> None:
    for number, reasons in enumerate((["a"], ["a", "b"], ["a", "b", "c"], ["d"])):
        at = NOON + timedelta(minutes=number)
        assert warehouse.incidents.report(TEST, "run 1", fingerprint=f"{reasons}", reasons=reasons, at=at)
        assert not warehouse.incidents.report(TEST, "run 1", fingerprint=f"{reasons}", reasons=reasons, at=at)
    incident = warehouse.incidents.find_open(TEST)
    assert incident is not None
    assert set(incident.reported) == set("abcd")
    assert incident.opened_at == NOON


def test_a_decision_is_later_than_the_last_one_of_its_test_also_if_the_clock_was_ahead(warehouse: Warehouse) -> None:
    assert warehouse.incidents.moment(TEST) <= datetime.now(UTC)
    ahead = datetime.now(UTC) + timedelta(hours=1)
    warehouse.incidents.report(TEST, "run 1", fingerprint="a", reasons=["a"], at=ahead)
    assert warehouse.incidents.moment(TEST) == ahead + timedelta(microseconds=1)
    assert warehouse.incidents.close(TEST, "run 2", at=warehouse.incidents.moment(TEST))
    assert warehouse.incidents.find_open(TEST) is None
