"""Writers and servers that are killed at any step leave the old rows or the new ones, never a mix."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from ml_metrics.core.errors import WarehouseError
from ml_metrics.warehouse import open_warehouse
from unit.warehouse.records import TEST, contents, record, run_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ml_metrics.warehouse import RunRecord
    from servers.postgres import PostgresServer

# Python 3.12 warns of forks beside threads. The children here import nothing and take no lock of a thread.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
OLD = record(0, {"accuracy_final": 0.1, "gone_final": 1.0}, metadata={"image": "old"})
NEW = record(0, {"accuracy_final": 0.9, "new_final": 2.0}, metadata={"image": "new"})
STEPS = range(8)
"""The steps of a load: before each of its six statements, before the commit, and after it."""


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/warehouse.db"
    return str(request.getfixturevalue("postgres").new_database())


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("first", [None, OLD], ids=["first attempt", "second attempt"])
def test_a_killed_writer_leaves_all_rows_or_none(address: str, step: int, first: RunRecord | None) -> None:
    if first:
        _load(address, first)
    _killed_at(address, step, NEW)
    with open_warehouse(address) as warehouse:
        assert contents(warehouse, NEW.key) in [_values(first), _values(NEW)]
        assert len(warehouse.runs.newest(TEST)) == (1 if contents(warehouse, NEW.key) else 0)
    _load(address, NEW)
    _check_is_stored_once(address)


def test_a_writer_killed_while_creating_tables_does_not_affect_the_next(address: str) -> None:
    for step in range(0, 14, 2):
        _killed_at(address, step, NEW)
    _load(address, NEW)
    _check_is_stored_once(address)


@pytest.mark.parametrize("step", STEPS)
def test_a_server_that_dies_during_a_load_is_an_error_and_a_retry_succeeds(postgres: PostgresServer, step: int) -> None:
    address = postgres.new_database()
    _load(address, OLD)
    with open_warehouse(address) as warehouse:
        warehouse.ensure_schema()
        _before_step(warehouse.database.store._engine, step, postgres.kill)
        if step < STEPS[-1]:
            with pytest.raises(WarehouseError):
                warehouse.load(NEW)
        else:
            warehouse.load(NEW)
            postgres.kill()
    postgres.start()
    with open_warehouse(address) as warehouse:
        assert contents(warehouse, NEW.key) in [_values(OLD), _values(NEW)]
    _load(address, NEW)
    _check_is_stored_once(address)


def test_a_full_disk_keeps_the_existing_rows(tmp_path: Path) -> None:
    """A limit on the size of files simulates a full disk: SQLite receives the same kind of error."""
    address = f"sqlite:///{tmp_path}/warehouse.db"
    _load(address, OLD)
    large = record(1, {f"metric_{number}": 1.0 for number in range(20_000)})

    def full() -> None:
        import resource

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
        try:
            _load(address, large)
        except WarehouseError as error:
            os._exit(0 if "warehouse.db" in str(error) else 2)
        os._exit(3)

    assert _in_a_process(full) == 0
    with open_warehouse(address) as warehouse:
        assert [run.uuid for run in warehouse.runs.newest(TEST)] == [OLD.key]
        assert contents(warehouse, run_of(0).key) == _values(OLD)


def _killed_at(address: str, step: int, run: RunRecord) -> None:
    def load_until_killed() -> None:
        warehouse = open_warehouse(address)
        if step in STEPS:
            _before_step(
                warehouse.database.store._engine, step, lambda: os.kill(os.getpid(), signal.SIGKILL), inserts_only=True
            )
        warehouse.load(run)
        os.kill(os.getpid(), signal.SIGKILL)

    assert _in_a_process(load_until_killed) == -signal.SIGKILL


def _before_step(engine: sa.Engine, step: int, act: Callable[[], None], *, inserts_only: bool = False) -> None:
    """Act before a statement of the load, by its number, or before the commit. Creating tables is not counted."""
    seen = {"statements": 0}

    def before_statement(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if inserts_only and not statement.startswith(("INSERT", "DELETE")):
            return
        if seen["statements"] == step:
            act()
        seen["statements"] += 1

    def before_commit(_connection: object) -> None:
        if seen["statements"] > 0 and step == STEPS[-2]:
            act()

    sa.event.listen(engine, "before_cursor_execute", before_statement)
    sa.event.listen(engine, "commit", before_commit)


def _in_a_process(act: Callable[[], None]) -> int:
    pid = os.fork()
    if not pid:
        signal.alarm(120)
        try:
            act()
        except BaseException as error:
            os.write(2, f"writer: {error!r}\n".encode())
        os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _load(address: str, run: RunRecord) -> None:
    with open_warehouse(address) as warehouse:
        warehouse.load(run)


def _check_is_stored_once(address: str) -> None:
    with open_warehouse(address) as warehouse:
        assert warehouse.runs.newest(TEST) == [NEW.job]
        assert warehouse.metrics.of_run(NEW.key) == list(NEW.metrics)


def _values(run: RunRecord | None) -> dict[str, float | None]:
    return {row.metric: row.value for row in run.metrics} if run else {}
