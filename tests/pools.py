"""Two pools of processes for one run of pytest: tests that wait for Airflow, pods and servers, and tests that compute.

`pytest -n 6 --waiting 2` runs everything outside `tests/unit` in two processes, and `tests/unit` in four beside them.
Each process collects its own pool only, because importing all tests takes longer than most of them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

import pytest
from xdist.scheduler.loadfile import LoadFileScheduling

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdist.remote import Producer
    from xdist.workermanage import WorkerController

COMPUTING = Path(__file__).parent / "unit"
ONE_AIRFLOW = "campaigns/one_airflow/"
WAREHOUSE = "tests/unit/warehouse/"
"""Its tests need servers that take longer to start than most of them, so two processes have such servers."""


def pytest_addoption(parser: pytest.Parser) -> None:
    what = "how many of the processes of -n run the tests that wait; the others run tests/unit"
    parser.addoption("--waiting", type=int, default=0, metavar="N", help=what)


def waits(worker: str, config: pytest.Config) -> bool:
    """Say whether a worker, such as gw3, belongs to the pool that waits."""
    return int(worker.removeprefix("gw")) < config.option.waiting


def is_of_another_pool(path: Path, config: pytest.Config) -> bool:
    """Say whether a test file, or a folder below `tests/unit`, is of the pool that this process is not in."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if not worker or not config.option.waiting:
        return False
    computes = COMPUTING in path.parents
    is_test = path.suffix == ".py" and path.name.startswith("test_")
    return computes if waits(worker, config) else is_test and not computes


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return is_of_another_pool(collection_path, config) or None


def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    """Leave out what pytest collects without asking: files and folders that it is given by name."""
    mine = [item for item in items if not is_of_another_pool(item.path, config)]
    items[:] = sorted(mine, key=lambda item: not item.nodeid.startswith(WAREHOUSE)) if config.option.waiting else mine


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Pools | LoadFileScheduling | None:
    if not config.option.waiting:
        return ByFile(config, log) if config.option.dist == "loadfile" else None
    if not 0 < config.option.waiting < config.option.numprocesses:
        raise pytest.UsageError(
            f"--waiting {config.option.waiting}: give 1 or more, and fewer than the processes of -n"
        )
    return Pools(config, log)


class ByFile(LoadFileScheduling):
    """Keeps the tests of a file together, those of a folder that has one Airflow, and halves of the warehouse's."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        if file.startswith(WAREHOUSE):
            return f"{WAREHOUSE}{crc32(file.encode()) % 2}"
        return ONE_AIRFLOW if file.startswith(ONE_AIRFLOW) else file


class Pools:
    """Gives each worker files of its own pool."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        self.config = config
        self.waiting, self.computing = ByFile(config, log), ByFile(config, log)
        self.computing.numnodes -= config.option.waiting
        self.waiting.numnodes = config.option.waiting
        self.pools = (self.waiting, self.computing)

    def of(self, node: WorkerController) -> LoadFileScheduling:
        return self.waiting if waits(node.gateway.id, self.config) else self.computing

    @property
    def nodes(self) -> list[WorkerController]:
        return [node for pool in self.pools for node in pool.nodes]

    @property
    def collection_is_completed(self) -> bool:
        return all(pool.collection_is_completed for pool in self.pools)

    @property
    def tests_finished(self) -> bool:
        return all(pool.tests_finished for pool in self.pools)

    @property
    def has_pending(self) -> bool:
        return any(pool.has_pending for pool in self.pools)

    def add_node(self, node: WorkerController) -> None:
        self.of(node).add_node(node)

    def remove_node(self, node: WorkerController) -> str | None:
        return self.of(node).remove_node(node)

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        self.of(node).add_node_collection(node, collection)

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        self.of(node).mark_test_complete(node, item_index, duration)

    def schedule(self) -> None:
        for pool in self.pools:
            pool.schedule()
        # the percentages of the report are of all tests, and pytest takes the number of a worker
        session = self.config.pluginmanager.getplugin("session")
        session.testscollected = sum(len(pool.collection or ()) for pool in self.pools)
