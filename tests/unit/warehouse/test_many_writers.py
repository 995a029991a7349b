"""Many processes write at once: airflow runs every task in a process of its own."""

from __future__ import annotations

import os
import random
import signal
from typing import TYPE_CHECKING

import pytest

from ml_metrics.warehouse import open_warehouse
from servers.bigquery import client_of
from servers.faulty_proxy import FaultyProxy
from unit.warehouse.records import TEST, contents, record, run_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ml_metrics.warehouse import RunRecord, Warehouse

# Python 3.12 warns of forking beside threads. A child here imports nothing and takes no lock that a thread may hold.
pytestmark = [
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
    pytest.mark.usefixtures("retries_come_sooner"),
]

WRITERS = 20


@pytest.fixture
def another_opener(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Warehouse]]:
    """Opens one warehouse, that does not exist yet, in whatever process calls it."""
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
    yield lambda: open_warehouse(address, client=client_of(proxy.port))
    proxy.close()


def test_twenty_writers_of_different_runs(another_opener: Callable[[], Warehouse]) -> None:
    """None of them finds a table there, and each has to make them."""
    values = {f"metric_{number}": float(number) for number in range(5)}
    _all_write_at_once(another_opener, [[record(day, values)] for day in range(WRITERS)])
    with another_opener() as warehouse:
        assert {run.uuid for run in warehouse.runs.newest(TEST, 100)} == {run_of(day).key for day in range(WRITERS)}
        assert len(warehouse.runs.newest(TEST, 100)) == WRITERS
        for day in range(WRITERS):
            assert contents(warehouse, run_of(day).key) == values


def test_writers_of_the_same_run_leave_the_rows_of_one_of_them(another_opener: Callable[[], Warehouse]) -> None:
    attempts = [record(0, {f"metric_{number}": float(chance) for number in range(4)}) for chance in range(6)]
    _all_write_at_once(another_opener, [[attempt] for attempt in attempts])
    with another_opener() as warehouse:
        assert len(warehouse.runs.newest(TEST)) == 1
        assert contents(warehouse, run_of(0).key) in [
            {row.metric: row.value for row in attempt.metrics} for attempt in attempts
        ]


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
def test_batches_in_any_order_do_not_wait_for_each_other_forever(another_opener: Callable[[], Warehouse]) -> None:
    days = list(range(30))
    batches = [random.Random(seed).sample(days, k=len(days)) for seed in range(4)]
    _all_write_at_once(another_opener, [[record(day) for day in batch] for batch in batches])
    with another_opener() as warehouse:
        assert len(warehouse.runs.newest(TEST, 100)) == len(days)


def _all_write_at_once(opener: Callable[[], Warehouse], batches: list[list[RunRecord]]) -> None:
    """A process for each; they begin when all are there, and all of them have to end well."""
    hear, tell = os.pipe()
    processes = [_process(opener, batch, hear, tell) for batch in batches]
    os.close(tell)
    os.close(hear)
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in processes] == [0] * len(processes)


def _process(opener: Callable[[], Warehouse], records: list[RunRecord], hear: int, tell: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.alarm(300)
        os.close(tell)
        os.read(hear, 1)  # ends when nobody holds the other side any more
        opener().load_all(records)
    except BaseException as error:  # noqa: BLE001  (whatever it is, this process must not go on as a test)
        os.write(2, f"writer: {error!r}\n".encode())
        os._exit(1)
    os._exit(0)
