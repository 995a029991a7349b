"""Many processes load runs at the same time, as the tasks of Airflow do."""

from __future__ import annotations

import os
import random
import signal
from typing import TYPE_CHECKING

import pytest

from ml_metrics.warehouse import open_warehouse
from servers.bigquery import IN_THE_US, client_of
from servers.faulty_proxy import FaultyProxy
from unit.warehouse.records import TEST, contents, record, run_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ml_metrics.warehouse import RunRecord, Warehouse

# Python 3.12 warns of forks beside threads. The children here import nothing and take no lock of a thread.
pytestmark = [
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
    pytest.mark.usefixtures("fast_retries"),
]


@pytest.fixture
def writers(engine: str) -> int:
    """How many write at once. BigQuery's writers wait for each other, and all time grows with the square of these."""
    return 8 if engine == "bigquery" else 20


@pytest.fixture
def new_opener(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Warehouse]]:
    """A function that opens one warehouse, at first missing, in any process."""
    if engine != "bigquery":
        address = (
            f"sqlite:///{tmp_path}/new/warehouse.db"
            if engine == "sqlite"
            else request.getfixturevalue("postgres").new_database()
        )
        yield lambda: open_warehouse(address)
        return
    server = request.getfixturevalue("bigquery_server")
    address, proxy = server.new_dataset(), FaultyProxy(server.port, {})
    yield lambda: open_warehouse(address, client=client_of(proxy.port), options=IN_THE_US)
    proxy.close()


def test_many_writers_of_different_runs(new_opener: Callable[[], Warehouse], writers: int) -> None:
    """Each of them finds no tables and creates them."""
    values = {f"metric_{number}": float(number) for number in range(5)}
    _write_concurrently(new_opener, [[record(day, values)] for day in range(writers)])
    with new_opener() as warehouse:
        assert {run.uuid for run in warehouse.runs.newest(TEST, 100)} == {run_of(day).key for day in range(writers)}
        assert len(warehouse.runs.newest(TEST, 100)) == writers
        for day in range(writers):
            assert contents(warehouse, run_of(day).key) == values


def test_writers_of_the_same_run_leave_the_rows_of_one(new_opener: Callable[[], Warehouse], writers: int) -> None:
    attempts = [record(0, {f"metric_{number}": float(chance) for number in range(4)}) for chance in range(writers // 2)]
    _write_concurrently(new_opener, [[attempt] for attempt in attempts])
    with new_opener() as warehouse:
        assert len(warehouse.runs.newest(TEST)) == 1
        assert contents(warehouse, run_of(0).key) in [
            {row.metric: row.value for row in attempt.metrics} for attempt in attempts
        ]


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
def test_batches_in_different_orders_do_not_deadlock(new_opener: Callable[[], Warehouse]) -> None:
    days = list(range(30))
    batches = [random.Random(seed).sample(days, k=len(days)) for seed in range(4)]
    _write_concurrently(new_opener, [[record(day) for day in batch] for batch in batches])
    with new_opener() as warehouse:
        assert len(warehouse.runs.newest(TEST, 100)) == len(days)


def _write_concurrently(opener: Callable[[], Warehouse], batches: list[list[RunRecord]]) -> None:
    """Start a process for each batch, let all begin at once, and check that all succeed."""
    start, release = os.pipe()
    processes = [_process(opener, batch, start, release) for batch in batches]
    os.close(release)
    os.close(start)
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in processes] == [0] * len(processes)


def _process(opener: Callable[[], Warehouse], records: list[RunRecord], start: int, release: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.alarm(300)
        os.close(release)
        os.read(start, 1)  # returns when all other ends are closed
        opener().load_all(records)
    except BaseException as error:
        os.write(2, f"writer: {error!r}\n".encode())
        os._exit(1)
    os._exit(0)
