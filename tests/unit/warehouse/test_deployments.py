"""Two deployments in one warehouse: whatever one does, no answer of the other changes."""

from __future__ import annotations

import inspect
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ml_metrics.core.model import JobStatus, Metric, Outcome, Run, TagCurve, Verdict, Workload
from ml_metrics.judge import HistoryNeeds
from ml_metrics.judge.history import Elsewhere
from ml_metrics.warehouse import (
    ChannelResult,
    KnownTest,
    MessageState,
    RunRecord,
    SenderPass,
    StoredMessage,
    Warehouse,
    open_warehouse,
    run_record,
)
from ml_metrics.warehouse.sql import SqlStore
from unit.warehouse.records import MONDAY, TEST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

CAUSE = "gcr.io/x cannot be pulled"
DEPLOYMENTS = ("dev", "prod")
OF_EVERYBODY = {"runs.deployments", "messages.moment", "incidents.moment"}
"""The whole warehouse answers these, or the clock does."""
LATER = datetime(2027, 1, 1, tzinfo=UTC)
NEEDS = HistoryNeeds((TEST, "other"), 3, 2, None)


def run(deployment: str, number: int) -> Run:
    return Run(TEST, TEST, f"scheduled__{number}", deployment)


def record(deployment: str, number: int) -> RunRecord:
    ended = MONDAY + timedelta(days=number)
    outcome = Outcome.FAIL if number % 3 == 0 else Outcome.PASS
    return run_record(
        run(deployment, number),
        Workload(JobStatus.SUCCESS, started_at=ended, ended_at=ended, image=f"{deployment}-{number}"),
        [Metric("loss", number + 0.5, "loss", "final")],
        [Verdict("loss", outcome, number + 0.5, None, "rule")],
        {f"key of {deployment}": "value"},
        accelerator="cpu",
        framework_version=deployment,
        owner="me",
        curves={"loss": TagCurve("loss", (1, 2), (3.0, float(number)))},
        trial=("image",) if number % 5 == 4 else (),
        loaded_at=ended,
    )


def message(deployment: str, number: int) -> StoredMessage:
    key = run(deployment, number).key
    return StoredMessage(
        f"{key}-001-broken", key, TEST, "me", "broken", "ab", MONDAY, ("a@example.com",), "it broke", ("why",)
    )


def send(warehouse: Warehouse, number: int) -> None:
    later = warehouse.messages.moment() + timedelta(hours=1)
    for one in warehouse.messages.due(later):
        warehouse.messages.take(one, "lease", later)
        warehouse.messages.finish(one.message, "lease", MessageState.SENT, {"smtp": ChannelResult("delivered")})
        warehouse.messages.revoke(replace(one, lease="lease"), later)
    warehouse.messages.hold(message(warehouse.deployment, number), "too many in an hour")
    warehouse.messages.summarise([message(warehouse.deployment, number).message])


def watch(warehouse: Warehouse, number: int) -> None:
    known = KnownTest(TEST, owner=warehouse.deployment)
    warehouse.known_tests.replace({TEST: known}, warehouse.known_tests.read().version)
    warehouse.known_tests.register(replace(known, file=str(number)))
    if number % 2:
        warehouse.known_tests.forget(TEST)


def report(warehouse: Warehouse, number: int) -> None:
    key = run(warehouse.deployment, number).key
    warehouse.incidents.report(TEST, key, fingerprint=str(number), reasons=["why"], at=MONDAY, cause=CAUSE)


ACTIONS: dict[str, Callable[[Warehouse, int], Any]] = {
    "load": lambda warehouse, number: warehouse.load(record(warehouse.deployment, number)),
    "load without a deployment": lambda warehouse, number: warehouse.load(
        replace(
            record(warehouse.deployment, number),
            job=replace(record(warehouse.deployment, number).job, deployment=None),
        )
    ),
    "report": report,
    "acknowledge": lambda warehouse, _: warehouse.incidents.acknowledge(TEST, by=warehouse.deployment, at=MONDAY),
    "assign": lambda warehouse, number: warehouse.incidents.assign(TEST, f"person-{number}", by="me", at=MONDAY),
    "assess": lambda warehouse, number: warehouse.incidents.assess(
        TEST, run(warehouse.deployment, number).key, is_regression=number % 2 == 0, by="me", at=MONDAY
    ),
    "close": lambda warehouse, number: warehouse.incidents.close(TEST, run(warehouse.deployment, number).key),
    "explain": lambda warehouse, number: [
        warehouse.incidents.explain(one, f"{CAUSE} {number}") for one in warehouse.incidents.all_open().values()
    ],
    "accept": lambda warehouse, number: warehouse.acceptances.add(
        run(warehouse.deployment, number).key, "loss", reason="", by="me", at=MONDAY
    ),
    "accept a run of the other": lambda warehouse, number: [
        warehouse.acceptances.add(run(each, number).key, "loss", reason="", by="me", at=MONDAY) for each in DEPLOYMENTS
    ],
    "undo": lambda warehouse, _: [
        warehouse.incidents.undo(by=warehouse.deployment, at=MONDAY),
        warehouse.quarantines.undo(by="me", at=MONDAY),
    ],
    "quarantine": lambda warehouse, number: warehouse.quarantines.set(
        TEST, until=MONDAY + timedelta(days=number), reason=warehouse.deployment, by="me", at=MONDAY
    ),
    "decide": lambda warehouse, number: warehouse.messages.add(message(warehouse.deployment, number)),
    "send": send,
    "pass": lambda warehouse, number: warehouse.senders.record(SenderPass("ml_messages", MONDAY, sent=number)),
    "watch": watch,
    "claim": lambda warehouse, _: warehouse.claim_runs(),
}
CHANGES = {
    "acceptances.add",
    "incidents.acknowledge",
    "incidents.assess",
    "incidents.assign",
    "incidents.close",
    "incidents.explain",
    "incidents.report",
    "incidents.undo",
    "known_tests.forget",
    "known_tests.register",
    "known_tests.replace",
    "messages.add",
    "messages.finish",
    "messages.hold",
    "messages.revoke",
    "messages.summarise",
    "messages.take",
    "quarantines.set",
    "quarantines.undo",
    "senders.record",
}
"""Every method of a part that changes rows. All others are asked."""
KEYS = [run(deployment, number).key for deployment in DEPLOYMENTS for number in range(3)]
PLACES = [record(deployment, number).job.place for deployment in DEPLOYMENTS for number in range(3)]
ARGUMENTS: dict[str, list[Any]] = {
    "before": [LATER],
    "cause": [CAUSE],
    "dag_id": [TEST],
    "keys": [[message(deployment, number).message for deployment in DEPLOYMENTS for number in range(3)]],
    "limit": [2, 100],
    "metric": ["loss"],
    "metrics": [["loss"]],
    "moment": [MONDAY],
    "most": [3],
    "names": [["loss"]],
    "needs": [NEEDS],
    "recent": [3],
    "newest": PLACES,
    "now": [LATER],
    "occasion": ["broken"],
    "ends": [{place.run_key: place.at for place in PLACES}],
    "other": [*PLACES[1:], PLACES[0]],
    "owner": ["me"],
    "run": PLACES,
    "run_id": ["scheduled__0", "scheduled__1"],
    "run_key": KEYS,
    "run_keys": [KEYS],
    "runs": [{place.run_key: (TEST, place.at) for place in PLACES}],
    "since": [MONDAY - timedelta(days=20)],
    "tags": [["loss"]],
    "test": [TEST],
    "tests": [[TEST]],
    "until": [LATER],
}
"""Arguments by the name of the parameter."""


def methods(warehouse: Warehouse) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield each public method of each part of the warehouse."""
    for part, members in vars(warehouse).items():
        if part != "database":
            for name in dir(members):
                if not name.startswith("_") and inspect.ismethod(method := getattr(members, name)):
                    yield f"{part}.{name}", method


def answers(warehouse: Warehouse, *, at_most: int = 100) -> dict[str, Any]:
    """Return everything that can be asked of a warehouse, with `at_most` so many arguments for each method."""
    found: dict[str, Any] = {}
    for name, method in methods(warehouse):
        if name not in CHANGES | OF_EVERYBODY:
            parameters = [each for each in inspect.signature(method).parameters.values() if each.name in ARGUMENTS]
            most = max((len(ARGUMENTS[each.name]) for each in parameters), default=1)
            for number in range(min(most, at_most)):
                given = {each.name: ARGUMENTS[each.name] for each in parameters}
                answer = method(**{key: one[number % len(one)] for key, one in given.items()})
                found[f"{name} {number}"] = list(answer) if inspect.isgenerator(answer) else answer
    ends = dict.fromkeys(KEYS, MONDAY - timedelta(days=20))
    found["attributes"] = dict(warehouse.attributes([TEST], ends))
    return found


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("places")


STEPS = st.lists(st.tuples(st.sampled_from(sorted(ACTIONS)), st.integers(0, 5)), max_size=12)


def act(warehouse: Warehouse, steps: list[tuple[str, int]]) -> None:
    for name, number in steps:
        ACTIONS[name](warehouse, number)


EVERYTHING = [(name, number) for number in (0, 1, 4) for name in ACTIONS]


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(own=STEPS, others=STEPS)
def test_no_answer_of_a_deployment_changes(
    places: Path, own: list[tuple[str, int]], others: list[tuple[str, int]]
) -> None:
    with open_warehouse(f"sqlite:///{places}/{uuid4()}.db", deployment="prod") as prod:
        act(prod, own)
        before = answers(prod)
        act(prod.in_deployment("dev"), others)
        assert answers(prod) == before


def test_no_answer_of_a_deployment_changes_on_any_engine(opener: Callable[..., Warehouse]) -> None:
    prod, dev = opener(deployment="prod"), opener(deployment="dev")
    act(prod, EVERYTHING[: len(ACTIONS)])
    before = answers(prod, at_most=1)
    assert sum(bool(each) for each in before.values()) > len(before) / 3, "most questions have no answer"
    act(dev, EVERYTHING[: len(ACTIONS)])
    assert answers(prod, at_most=1) == before
    assert [one.image for one in dev.runs.newest(TEST)] == ["dev-0"]
    assert dev.runs.deployments() == ["dev", "prod"]


def test_each_parameter_of_each_method_has_an_argument(places: Path) -> None:
    """A new method without an argument, or one that changes rows and is not known to, is noticed here."""
    with open_warehouse(f"sqlite:///{places}/one.db", deployment="prod") as warehouse:
        for name, method in methods(warehouse):
            required = {
                each.name for each in inspect.signature(method).parameters.values() if each.default is each.empty
            }
            assert name in CHANGES or required <= ARGUMENTS.keys(), name
        act(warehouse, EVERYTHING)
        assert answers(warehouse) == answers(warehouse)
        assert {name for name, _ in methods(warehouse)} >= CHANGES


def test_another_deployment_is_read_only_by_its_name(places: Path) -> None:
    with open_warehouse(f"sqlite:///{places}/named.db", deployment="prod") as prod:
        act(prod, [("load", 1), ("accept", 1)])
        dev = prod.in_deployment("dev")
        there = Elsewhere("prod", TEST, "there")
        needs = HistoryNeeds((TEST,), 3, 3, None, (there,))
        (row,) = dev.metrics.history(needs)
        assert (row.test, row.run_key, row.value) == ("there", run("prod", 1).key, 1.5)
        (accepted,) = dev.acceptances.of_history(needs)
        assert (accepted.test, accepted.run_key) == ("there", row.run_key)
        ends = {row.run_key: row.timestamp}
        there_too = partial(dev.curves.of_runs, [row.run_key], ["loss"], tests=[TEST], ends=ends)
        assert there_too() == {}
        assert there_too(deployments=["prod"]).keys() == {(row.run_key, "loss")}
        assert dict(dev.attributes([TEST], ends)) == {row.run_key: {}}
        found = dev.attributes([TEST], ends, deployments=["prod"])[row.run_key]
        assert (found["image"], found["key of prod"]) == ("prod-1", "value")


def forget_deployments(warehouse: Warehouse) -> None:
    """Make the rows those of an older version."""
    for table in ("job_history", "metric_history", "curve_history", "acceptances", "alerts"):
        warehouse.database.change(f"UPDATE {table} SET deployment = NULL WHERE TRUE")


def test_rows_of_an_older_version_belong_to_every_deployment_until_one_claims_them(
    opener: Callable[..., Warehouse],
) -> None:
    prod, dev = opener(deployment="prod"), opener(deployment="dev")
    act(prod, [("load", 0), ("load", 1), ("accept", 1), ("report", 0)])
    act(dev, [("load", 2)])
    alone = prod.metrics.values(TEST, "loss"), prod.incidents.all_open(), prod.acceptances.of_test(TEST)
    forget_deployments(prod)
    for each in (prod, dev):
        assert {one.image for one in each.runs.newest(TEST)} == {"prod-0", "prod-1", "dev-2"}
        assert TEST in each.incidents.all_open()
    claim = prod.claim_runs()
    assert (claim.claimed, claim.left) == (2, 1)
    assert {one.image for one in dev.runs.newest(TEST)} == {"dev-2"}
    assert dev.incidents.all_open() == {}
    assert (dev.claim_runs().claimed, dev.claim_runs().claimed) == (1, 0)
    assert alone == (prod.metrics.values(TEST, "loss"), prod.incidents.all_open(), prod.acceptances.of_test(TEST))


def test_indexes_of_older_versions_are_replaced_once(tmp_path: Path) -> None:
    store = SqlStore(f"sqlite:///{tmp_path}/older.db", create=True)
    store.ensure_schema()
    store.change("DROP INDEX job_history_by_time", {})
    store.change("CREATE INDEX job_history_shown ON job_history (timestamp)", {})
    store.ensure_schema()
    known = "'job_history_shown', 'job_history_regular', 'job_history_by_time'"
    names = f"SELECT name FROM sqlite_master WHERE name IN ({known})"
    assert [row["name"] for row in store.rows(names, {})] == ["job_history_by_time"]
    store.change("CREATE INDEX job_history_shown ON job_history (timestamp)", {})  # by a process of the older version
    store.ensure_schema()
    assert len(store.rows(names, {})) == 2, "two versions would create and drop it again and again"
    store.close()
