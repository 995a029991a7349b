"""Clusters for tests."""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import Pods, connect
from local_kube import LocalCluster
from nothing_left import leave_nothing_running

leave_nothing_running()


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the variables of the user that would change what a test does."""
    for name in list(os.environ):
        if name.startswith(("AIRFLOW", "KUBECONFIG", "KUBERNETES_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture(scope="session")
def image_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("image")
    (folder / "include").mkdir()
    (folder / "include" / "hello.py").write_text("import sys\nprint('hello', *sys.argv[1:])\n")
    return folder


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, image_folder: Path) -> Iterator[Pods]:
    """One server for all tests that leave it as they found it; files that use no cluster may run between them."""
    cluster = LocalCluster(str(tmp_path_factory.mktemp("shared")), str(image_folder), idle_seconds=7200)
    yield connect(cluster)
    cluster.stop()


@pytest.fixture
def pods(shared: Pods) -> Pods:
    return shared


@pytest.fixture
def killed_during_handshake() -> Iterator[None]:
    """Ignore the socket that Python leaves open if a killed server resets a connection before TLS begins."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "unclosed <ssl.SSLSocket", ResourceWarning)
        yield
        gc.collect()


@pytest.fixture
def own(tmp_path: Path, image_folder: Path) -> Iterator[Pods]:
    """A server for one test, which can kill or stop it."""
    cluster = LocalCluster(str(tmp_path / "cluster"), str(image_folder))
    yield connect(cluster)
    cluster.ensure_running()
    cluster.stop()
