"""Runs are loaded into BigQuery exactly once, whatever request fails and whenever the writer is killed."""

from __future__ import annotations

import gc
import multiprocessing
import os
import random
import signal
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest

from ml_metrics.core.errors import WarehouseError
from ml_metrics.core.model import JobStatus
from ml_metrics.warehouse import Warehouse, open_warehouse
from ml_metrics.warehouse.bigquery import BigQueryStore, _Load
from servers.bigquery import IN_THE_US, BigQueryServer, client_of
from servers.faulty_proxy import KILLS, SURVIVABLE, Fault, FaultyProxy
from unit.warehouse.records import contents, record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ml_metrics.warehouse import RunRecord

# Python 3.12 warns of forks beside threads. The children here import nothing and take no lock of a thread.
pytestmark = [
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
    pytest.mark.usefixtures("fast_retries"),
]

SHORT_ROUNDS, WHOLE_ROUNDS = 4, 500
FIRST_SEED = int(os.environ.get("CAMPAIGN_SEED", "1"))
ROUNDS = int(os.environ.get("CAMPAIGN_ROUNDS", str(WHOLE_ROUNDS)))
PROCESSES = 3
REQUESTS_OF_A_LOAD = 4
"""A load gets the location of the dataset, inserts its job and waits for it; faults make it send further requests."""


@pytest.fixture(scope="module")
def dataset(bigquery_server: BigQueryServer) -> str:
    """A dataset with tables. Every round loads its own run."""
    address = bigquery_server.new_dataset(keep=True)
    with open_warehouse(address, client=bigquery_server.client(), options=IN_THE_US) as warehouse:
        warehouse.ensure_schema()
    return address


@pytest.mark.parametrize("fault", SURVIVABLE)
@pytest.mark.parametrize("request_number", range(REQUESTS_OF_A_LOAD))
def test_a_survivable_fault_has_no_effect(
    bigquery_server: BigQueryServer, dataset: str, fault: Fault, request_number: int
) -> None:
    run = record(request_number, {"accuracy_final": 0.9, "loss_final": 0.1}, test=f"{fault.name}-{request_number}")
    with _proxied(bigquery_server, dataset, {request_number: fault}) as warehouse:
        _load_without_schema(warehouse, run)
    _check_is_stored_once(bigquery_server.port, dataset, [run])


def test_after_a_lost_response_the_job_is_found_and_not_repeated(bigquery_server: BigQueryServer, dataset: str) -> None:
    run = record(0, test="lost-answer")
    with _proxied(bigquery_server, dataset, {1: Fault.LOSE}) as warehouse:
        _load_without_schema(warehouse, run)
    client = bigquery_server.client()
    project, _, name = dataset.removeprefix("bigquery://").partition("/")
    chain = _Load(BigQueryStore(project, name, client, IN_THE_US), (run,))
    places = [chain.job(place) is not None for place in range(2)]
    client.close()
    assert places == [True, False]


def test_a_dropped_table_is_filled_again(bigquery_server: BigQueryServer) -> None:
    """The chain of job ids has the run, but the table does not."""
    address = bigquery_server.new_dataset()
    client, run = bigquery_server.client(), record(0)
    with open_warehouse(address, client=client, options=IN_THE_US) as warehouse:
        warehouse.load(run)
    client.delete_dataset(address.rpartition("/")[2], delete_contents=True)
    with open_warehouse(address, client=client, options=IN_THE_US) as warehouse:
        warehouse.load(run)
    client.close()
    _check_is_stored_once(bigquery_server.port, address, [run])


def test_an_unavailable_server_is_an_error(bigquery_server: BigQueryServer) -> None:
    address = bigquery_server.new_dataset()
    with _proxied(bigquery_server, address, dict.fromkeys(range(10_000), Fault.BUSY)) as warehouse:
        store = warehouse.database.store
        store.retry = store.retry.with_timeout(0.3)
        with pytest.raises(WarehouseError, match=rf"^{address}: .*busy"):
            warehouse.load(record(0))


def test_a_run_that_is_too_large_for_a_request_is_rejected_before_it_is_sent(
    bigquery_server: BigQueryServer, dataset: str
) -> None:
    run = record(0, {f"{number}{'x' * 1900}": 1.0 for number in range(5000)}, test="too-large")
    with _proxied(bigquery_server, dataset, {}) as warehouse:
        with pytest.raises(WarehouseError, match=r"nothing was written: 5000 metrics .* include_tags"):
            _load_without_schema(warehouse, run)
        assert warehouse.runs.newest("too-large") == []


def test_a_short_campaign(bigquery_server: BigQueryServer, dataset: str) -> None:
    _campaign(bigquery_server, dataset, range(FIRST_SEED, FIRST_SEED + SHORT_ROUNDS))


@pytest.mark.campaign
@pytest.mark.skipif(not os.environ.get("CAMPAIGN"), reason="the whole campaign takes minutes; set CAMPAIGN=1 to run it")
def test_the_whole_campaign(bigquery_server: BigQueryServer, dataset: str) -> None:
    seeds = range(FIRST_SEED + SHORT_ROUNDS, FIRST_SEED + SHORT_ROUNDS + ROUNDS)
    counts = _campaign(bigquery_server, dataset, seeds)
    assert all(counts.values()), f"{len(seeds)} rounds are too few to meet each fault"


def _campaign(server: BigQueryServer, dataset: str, seeds: range) -> dict[str, int]:
    """Play a round for each seed, and return how many rounds met each fault."""
    with multiprocessing.get_context("fork").Pool(PROCESSES) as processes:
        rounds = processes.imap(partial(_round, server.port, dataset), seeds)
        happened = [_printed(seed, faults) for seed, faults in zip(seeds, rounds, strict=True)]
    counts = {fault.name: sum(fault in faults for faults in happened) for fault in Fault}
    print(f"{len(happened)} rounds from seed {seeds.start}; rounds that met each fault: {counts}")
    assert sum(counts.values()) >= len(seeds), "the faults did not happen"
    return counts


def _printed(seed: int, faults: list[Fault]) -> list[Fault]:
    print(f"seed {seed}: {', '.join(fault.name for fault in faults)}", flush=True)
    return faults


def _round(port: int, dataset: str, seed: int) -> list[Fault]:
    """Load one run with writers that are killed, and finally with one that meets faults but survives."""
    chance = random.Random(seed)
    test, happened = f"campaign-{seed}", []
    attempts = [_attempt(chance, test) for _ in range(chance.randint(2, 4))]
    same_again = chance.random() < 0.5
    if same_again:  # a retry has the same content; another attempt of the workload does not
        attempts = [attempts[0]] * len(attempts)
    for attempt in attempts[:-1]:
        happened += _killed(port, dataset, attempt, {chance.randrange(REQUESTS_OF_A_LOAD): chance.choice(KILLS)})
    rivals = [attempts[-1]] if chance.random() < 0.7 else [attempts[-1], _attempt(chance, test)]
    faults = [_survivable(chance) for _ in rivals]
    happened += _survived(port, dataset, rivals, faults)
    try:
        _check_is_stored_once(port, dataset, rivals)
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}; faults: {happened}") from error
    return happened


def _attempt(chance: random.Random, test: str) -> RunRecord:
    values = {f"metric_{number}": chance.random() for number in range(chance.randint(1, 6))}
    return record(0, values, test=test, status=chance.choice([JobStatus.SUCCESS, JobStatus.FAILURE]))


def _survivable(chance: random.Random) -> dict[int, Fault]:
    numbers = chance.sample(range(REQUESTS_OF_A_LOAD * 2), k=chance.randint(1, 3))
    return {number: chance.choice(SURVIVABLE) for number in numbers}


def _killed(port: int, dataset: str, attempt: RunRecord, faults: Mapping[int, Fault]) -> list[Fault]:
    """Run a writer in its own process, which the proxy kills, unless the load ends before that request."""
    writer = _Writer(dataset, attempt)
    proxy = writer.through(FaultyProxy(port, faults))
    exit_code = writer.wait()
    proxy.close()
    assert exit_code in {0, -signal.SIGKILL}
    return proxy.happened if exit_code else []


def _survived(port: int, dataset: str, rivals: list[RunRecord], faults: list[dict[int, Fault]]) -> list[Fault]:
    """Run several writers of the same run concurrently. All of them must succeed."""
    writers = [_Writer(dataset, rival) for rival in rivals]
    proxies = [writer.through(FaultyProxy(port, each)) for writer, each in zip(writers, faults, strict=True)]
    exit_codes = [writer.wait() for writer in writers]
    for proxy in proxies:
        proxy.close()
    assert exit_codes == [0] * len(rivals)
    return [fault for proxy in proxies for fault in proxy.happened]


class _Writer:
    """A process that loads one run as soon as it gets the port of its proxy.

    It is forked, because starting Python and importing the client takes a hundred times as long as a load. It is
    forked before its proxy starts threads, because the child would never release a lock that a thread holds.
    """

    def __init__(self, dataset: str, attempt: RunRecord) -> None:
        receive, self._send = os.pipe()
        self._pid = os.fork()
        if self._pid:
            os.close(receive)
            return
        try:
            gc.disable()
            signal.alarm(300)
            warehouse = open_warehouse(dataset, client=client_of(int(os.read(receive, 16))), options=IN_THE_US)
            _load_without_schema(warehouse, attempt)
        except BaseException as error:
            os.write(2, f"writer: {error!r}\n".encode())
            os._exit(1)
        os._exit(0)

    def through(self, proxy: FaultyProxy) -> FaultyProxy:
        proxy.writer = self._pid
        os.write(self._send, str(proxy.port).encode())
        os.close(self._send)
        return proxy

    def wait(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])


@contextmanager
def _proxied(server: BigQueryServer, dataset: str, faults: Mapping[int, Fault]) -> Iterator[Warehouse]:
    proxy = FaultyProxy(server.port, faults)
    client = server.client(proxy.port)
    try:
        yield open_warehouse(dataset, client=client, options=IN_THE_US)
    finally:
        client.close()
        proxy.close()


def _load_without_schema(warehouse: Warehouse, run: RunRecord) -> None:
    """Load without checking the tables, so that the faults affect the requests of the load."""
    warehouse.database._is_ready = True
    warehouse.load(run)


def _check_is_stored_once(port: int, dataset: str, candidates: list[RunRecord]) -> None:
    """Check that there is one job row and one row for each metric, all of the same attempt."""
    client = client_of(port)
    with open_warehouse(dataset, client=client, options=IN_THE_US) as warehouse:
        warehouse.database._is_ready = True
        job = candidates[0].job
        runs = [run for run in warehouse.runs.newest(job.test_name, 10) if run.uuid == job.uuid]
        rows = warehouse.metrics.of_run(job.uuid)
        found = contents(warehouse, job.uuid)
    client.close()
    assert len(runs) == 1, f"{len(runs)} job rows"
    assert len(rows) == len(found), f"{len(rows)} rows for {len(found)} metrics"
    attempts = [(each.job.job_status, {row.metric: row.value for row in each.metrics}) for each in candidates]
    assert (runs[0].job_status, found) in attempts, f"{found} is none of {attempts}"
