"""Rows that are kept no longer leave all tables at once, and nothing of another deployment or still needed does."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import event

from ml_metrics.core.model import JobStatus, Sweep, SweepPoint, TagCurve
from ml_metrics.judge import history
from ml_metrics.warehouse import MessageState, OldRows, StoredMessage, Warehouse, old_rows
from ml_metrics.warehouse.tables import RUN_TABLES
from unit.warehouse.records import MONDAY, TEST, record, run_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ml_metrics.warehouse import RunRecord

    Opener = Callable[..., Warehouse]

BEFORE = MONDAY + timedelta(days=95)
"""The fifth of June."""
DAYS = (0, 20, 40, 80, 94, 96, 120, 121)
CURVE = TagCurve("loss", (1, 2), (0.5, 0.25))


@pytest.fixture(autouse=True)
def two_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A judgement reads one run, or two if it is one of them."""
    monkeypatch.setattr(old_rows, "GOOD_RUNS", 1)
    monkeypatch.setattr(history, "RECENT", 0)
    monkeypatch.setattr(old_rows, "RUNS_IN_BATCH", 2)


def whole(day: int, test: str = TEST, deployment: str | None = "local") -> RunRecord:
    """Return a run with rows in all five tables."""
    made = record(day, {"accuracy_final": 0.9, "loss_final": 0.1}, test=test, metadata={"image": "i"})
    key = f"{deployment}-{test}-{day}"
    return replace(
        made,
        job=replace(made.job, uuid=key, deployment=deployment),
        metrics=tuple(replace(one, run_key=key) for one in made.metrics),
        curves={"loss": ("{}", None)},
        sweeps=(Sweep("ttft", "rate", (SweepPoint(1.0, 2.0),)),),
    )


def keys(warehouse: Warehouse) -> dict[str, set[str]]:
    """Return the runs that each table has."""
    store = warehouse.database.store
    return {table.name: {str(row[0]) for row in store.scan(table.name, ["uuid"])} for table in RUN_TABLES}


def named(*days: int, test: str = TEST, deployment: str = "local") -> set[str]:
    return {f"{deployment}-{test}-{day}" for day in days}


def check_kept(warehouse: Warehouse, expected: set[str]) -> None:
    assert keys(warehouse) == {table.name: expected for table in RUN_TABLES}


def test_whole_runs_of_one_deployment_are_removed(opener: Opener) -> None:
    warehouse = opener()
    warehouse.load_all([*map(whole, DAYS), *(whole(day, deployment="prod") for day in DAYS)])
    rows = OldRows(warehouse.database, BEFORE)
    old = [day for day in DAYS if MONDAY + timedelta(days=day) < rows.until]
    gone = old[:-2]
    assert gone == [0, 20, *([] if warehouse.database.store.bills_bytes else [40])]
    assert [(one.test, one.runs, one.oldest) for one in rows.count()] == [(TEST, len(gone), MONDAY)]
    check_kept(warehouse, named(*DAYS) | named(*DAYS, deployment="prod"))
    assert sum(rows.remove()) == len(gone)
    kept = named(*(set(DAYS) - set(gone))) | named(*DAYS, deployment="prod")
    check_kept(warehouse, kept)
    assert (rows.count(), list(rows.remove())) == ([], [])
    warehouse.load(whole(0))
    assert sum(rows.remove()) == 1, "a run that is loaded again is removed again"
    check_kept(warehouse, kept)


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"], indirect=True)
def test_a_pass_that_is_killed_leaves_whole_runs(opener: Opener) -> None:
    warehouse = opener()
    warehouse.load_all([*map(whole, DAYS), *(whole(day, deployment="prod") for day in DAYS)])
    store = warehouse.database.store
    for step in range(1, 2 * len(RUN_TABLES) + 1):
        left = [step]

        def die(*args: object, left: list[int] = left) -> None:
            left[0] -= str(args[2]).startswith("DELETE")
            if left[0] == 0:
                raise KeyboardInterrupt

        event.listen(store._engine, "after_cursor_execute", die)
        with pytest.raises(KeyboardInterrupt):
            list(OldRows(warehouse.database, BEFORE).remove())
        event.remove(store._engine, "after_cursor_execute", die)
        found = keys(opener())
        assert len({frozenset(runs) for runs in found.values()}) == 1, f"half of a run after statement {step}"
        assert len(found["job_history"] & named(*DAYS)) == (8 if step <= len(RUN_TABLES) else 6)
        warehouse.load_all([whole(day) for day in DAYS])
    for _ in range(3):
        list(OldRows(warehouse.database, BEFORE).remove())
        check_kept(warehouse, named(80, 94, 96, 120, 121) | named(*DAYS, deployment="prod"))


def test_what_is_needed_stays(opener: Opener) -> None:
    warehouse = opener()
    rare = [whole(day, "rare") for day in (0, 1, 40)]
    broken = [whole(day, "broken") for day in (0, 50, 90, 100, 101)]
    failed = replace(whole(94, "rare"), job=replace(whole(94, "rare").job, job_status=JobStatus.FAILURE.value))
    warehouse.load_all([*rare, failed, *broken, whole(0, deployment=None)])
    warehouse.database.change("UPDATE job_history SET deployment = NULL WHERE test_name = :test", test=TEST)
    warehouse.incidents.report("broken", "key", fingerprint="f", reasons=["r"], at=MONDAY + timedelta(days=51))
    rows = OldRows(warehouse.database, BEFORE)
    removed = sum(rows.remove())
    everything = named(1, 40, 94, test="rare") | named(50, 90, 100, 101, test="broken") | {f"None-{TEST}-0"}
    check_kept(warehouse, everything)
    assert removed == 10 - len(everything)


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_what_is_needed_is_looked_for_in_the_history_that_is_read(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse = opener()
    runs = [whole(day, "rare") for day in range(38, 46)]
    failed = [replace(run, job=replace(run.job, job_status=JobStatus.FAILURE.value)) for run in runs[2:]]
    warehouse.load_all([*runs[:2], *failed])
    monkeypatch.setattr(warehouse.database.store, "horizon", MONDAY + timedelta(days=39))
    list(OldRows(warehouse.database, BEFORE).remove())
    kept = keys(warehouse)["job_history"]
    assert named(38, 39, 40, test="rare") & kept == named(39, test="rare"), "the last good one that is read"


def test_what_led_to_an_open_incident_stays_for_ten_days_before_it(opener: Opener) -> None:
    warehouse = opener()
    days = (0, 20, 22, 30, 31, 100, 101)
    warehouse.load_all([whole(day, "broken") for day in days])
    at = MONDAY + timedelta(days=31, hours=12)
    warehouse.incidents.report("broken", "key", fingerprint="f", reasons=["r"], at=at)
    list(OldRows(warehouse.database, BEFORE).remove())
    first = at - timedelta(days=10)
    first = first.replace(day=1, hour=0) if warehouse.database.store.bills_bytes else first
    check_kept(warehouse, named(*(day for day in days if MONDAY + timedelta(days=day) >= first), test="broken"))


def test_closed_incidents_and_sent_messages_leave(opener: Opener) -> None:
    warehouse, prod = opener(), opener(deployment="prod")
    for one in (warehouse, prod):
        for test, opened, closed in (("old", 1, 2), ("late", 1, 96), ("open", 1, None)):
            key = f"{one.deployment}-{test}"
            one.incidents.report(test, key, fingerprint="f", reasons=["r"], at=MONDAY + timedelta(days=opened))
            if closed:
                assert one.incidents.close(test, "r", at=MONDAY + timedelta(days=closed))
        key = f"{one.deployment}-again"
        one.incidents.report("again", key, fingerprint="f", reasons=["r"], at=MONDAY + timedelta(days=1))
        assert one.incidents.close("again", "r", at=MONDAY + timedelta(days=2))
        one.incidents.close("again", "later", incident=key, at=MONDAY + timedelta(days=96))
        for name, day, state in (("a", 1, "sent"), ("b", 96, "sent"), ("c", 1, "pending"), ("d", 1, "dead")):
            one.messages.add(_message(f"{one.deployment}-{name}", day, state))
    list(OldRows(warehouse.database, BEFORE).remove())
    store = warehouse.database.store
    left = sorted({str(row[0]) for row in store.scan("alerts", ["opened_by"])})
    assert left == [f"local-{name}" for name in ("again", "late", "open")] + [
        f"prod-{name}" for name in ("again", "late", "old", "open")
    ]
    assert len(list(store.scan("alerts", ["opened_by"]))) == 3 + 3 + 3 + 5
    assert warehouse.incidents.all_open().keys() == {"open"}
    left = sorted(str(row[0]) for row in store.scan("messages", ["message"]))
    assert left == ["local-b", "local-c", "prod-a", "prod-b", "prod-c", "prod-d"]


def _message(key: str, day: int, state: str) -> StoredMessage:
    return StoredMessage(
        message=key,
        run_key=run_of().key,
        test=TEST,
        owner="o",
        occasion="broken",
        content_hash="h",
        timestamp=MONDAY + timedelta(days=day),
        recipients=("a@example.com",),
        subject="s",
        reasons=("r",),
        state=MessageState(state),
    )


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_run_that_was_loaded_again_meanwhile_stays(opener: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    warehouse = opener()
    warehouse.load_all(list(map(whole, DAYS)))
    database = warehouse.database
    remove, newer = database.change_all, whole(0)
    at = MONDAY + timedelta(days=130)
    newer = replace(
        newer,
        job=replace(newer.job, timestamp=at),
        metrics=tuple(replace(one, timestamp=at, written_at=at) for one in newer.metrics),
    )

    waiting = [newer]

    def reload_then_remove(*args: object, **more: object) -> None:
        if waiting:
            warehouse.load(waiting.pop())
        remove(*args, **more)

    monkeypatch.setattr(database, "change_all", reload_then_remove)
    list(OldRows(database, BEFORE).remove())
    check_kept(warehouse, named(0, 80, 94, 96, 120, 121))


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_pass_that_is_late_leaves_incidents_and_messages_to_the_next(opener: Opener) -> None:
    warehouse = opener()
    warehouse.load_all([whole(day) for day in (0, 20, 40, 80)])
    warehouse.incidents.report("old", "key", fingerprint="f", reasons=["r"], at=MONDAY)
    warehouse.incidents.close("old", "r", at=MONDAY + timedelta(days=1))
    warehouse.messages.add(_message("a", 1, "sent"))
    late: list[bool] = []
    passes = OldRows(warehouse.database, BEFORE).remove(lambda: bool(late))
    assert next(passes) == 2
    late.append(True)
    assert list(passes) == []
    store = warehouse.database.store
    assert (len(list(store.scan("alerts", ["kind"]))), len(list(store.scan("messages", ["state"])))) == (2, 1)
    assert list(OldRows(warehouse.database, BEFORE).remove()) == []
    assert list(store.scan("alerts", ["kind"])) == list(store.scan("messages", ["state"])) == []


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_runs_are_read_page_by_page_also_if_several_end_at_once(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(old_rows, "MOST_RUNS", 2)
    warehouse = opener()
    tests = ("a", "b", "c")
    warehouse.load_all([whole(day, test) for day in (0, 1, 2, 3, 94) for test in tests])
    rows = OldRows(warehouse.database, BEFORE)
    assert [(one.test, one.runs, one.oldest) for one in rows.count()] == [(test, 3, MONDAY) for test in tests]
    assert list(rows.remove()) == [2, 2, 2, 2, 1]
    check_kept(warehouse, set().union(*(named(3, 94, test=test) for test in tests)))


@pytest.mark.parametrize(("bills", "removed", "slept"), [(False, [2, 2, 1], [5.0] * 3), (True, [1, 2, 2], [])])
@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_transaction_removes_a_month_where_bytes_are_billed_and_else_few_runs(
    opener: Opener, monkeypatch: pytest.MonkeyPatch, bills: bool, removed: list[int], slept: list[float]
) -> None:
    """March of last year is another month. Between two transactions, a file is left to others as long as each took."""
    warehouse = opener()
    days = (-365, 0, 20, 40, 45, 80, 85, 94)
    warehouse.load_all([_with_points(whole(day), days=10 * sign) for day, sign in zip(days, [1, -1] * 4, strict=True)])
    monkeypatch.setattr(warehouse.database.store, "bills_bytes", bills)
    pauses, clock = [], iter(range(0, 1000, 5))
    monkeypatch.setattr(old_rows, "time", SimpleNamespace(monotonic=lambda: next(clock), sleep=pauses.append))
    # with a day before the end of its month, nothing younger than that month is removed where bytes are billed
    before = MONDAY + timedelta(days=93 if bills else 90)
    assert list(OldRows(warehouse.database, before).remove()) == removed
    assert pauses == slept
    check_kept(warehouse, named(80, 85, 94))


def _with_points(run: RunRecord, days: int) -> RunRecord:
    """Return a run whose points were written as far from its end as a right clock allows."""
    at = run.job.timestamp + timedelta(days=days)
    return replace(run, metrics=tuple(replace(one, written_at=at) for one in run.metrics))
