"""What every test needs: an Airflow home of its own, and no setting of the person who runs the tests."""

from __future__ import annotations

import gc
import os
import re
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from traceback import format_stack
from uuid import uuid4

import pytest
from hypothesis import settings

from ml_metrics.warehouse import sql
from nothing_left import leave_nothing_running
from servers.gcs import BUCKET, GcsServer

leave_nothing_running()
gc.disable()  # while the tests are collected: what is imported and collected stays until the end
PROJECT = Path(__file__).parents[1]
# read when gcsfs is imported: it would ask an API for the kind of a bucket that what stands for the cloud does not have
os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"
# read when numpy is imported: its threads wait for each other at full speed, and no test has a matrix that needs them
os.environ["OPENBLAS_NUM_THREADS"] = "1"
# a test kills processes, never the machine, and waits for no disk
os.fsync = lambda _: None
sql.SYNCHRONOUS = "OFF"
# the time of an example measures what else the machine does; CI, which may take longer, tries more examples
settings.register_profile("here", settings(), deadline=None, max_examples=100 if os.environ.get("CI") else 30)
settings.load_profile("here")
NUMBERS, NO_LETTERS = count(), re.compile(r"\W")
OWN_SETTINGS = ("AIRFLOW__", "AIRFLOW_CONN_", "ML_METRICS_", "KUBECONFIG", "MODEL_DIR", "OTEL_")


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder. To find a name for it, pytest's own fixture looks through the folders of all earlier tests."""
    folder = tmp_path_factory.getbasetemp() / f"{NO_LETTERS.sub('_', request.node.name)[:30]}-{next(NUMBERS)}"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture(autouse=True)
def a_clean_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(OWN_SETTINGS):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture(scope="session", autouse=True)
def no_thread_computes_on() -> Iterator[None]:
    """No thread that a test has left computes for ever: it would take its share of the time of every test after it."""
    yield
    for _ in range(100):
        began = time.process_time()
        time.sleep(0.1)
        if time.process_time() - began < 0.05:
            return
    names = {one.ident: one.name for one in threading.enumerate()}
    stacks = [f"{names.get(one)}:\n{''.join(format_stack(frame))}" for one, frame in sys._current_frames().items()]
    pytest.fail("a thread that a test started computes still:\n" + "\n".join(stacks))


@pytest.fixture(scope="session")
def project() -> Path:
    return PROJECT


@pytest.fixture(scope="session")
def gcs_server() -> Iterator[GcsServer]:
    server = GcsServer()
    yield server
    server.stop()


@pytest.fixture
def bucket(gcs_server: GcsServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """A new folder in a bucket of what stands for Google Cloud Storage."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", gcs_server.url)
    monkeypatch.setenv("NO_GCE_CHECK", "true")  # requests no identity from a metadata server
    return f"gs://{BUCKET}/{uuid4()}"


NOBODY = 65534


@pytest.fixture
def become_somebody(tmp_path: Path) -> Iterator[Callable[[], None]]:
    """Become a user without rights, where the tests are root, who may read and write everywhere."""
    was_root = os.geteuid() == 0
    everybodys = Path(tempfile.gettempdir()).resolve()
    for folder in (tmp_path, *tmp_path.parents):
        if folder in {everybodys, *everybodys.parents}:
            break
        if not folder.stat().st_mode & stat.S_IXOTH:  # others have their place in an open one, such as /dev/shm
            folder.chmod(0o755)

    def become() -> None:
        if was_root:
            os.seteuid(NOBODY)

    yield become
    if was_root:
        os.seteuid(0)
