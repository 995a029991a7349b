"""What every test needs: an Airflow home of its own, and no setting of the person who runs the tests."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
OWN_SETTINGS = ("AIRFLOW__", "AIRFLOW_CONN_", "ML_METRICS_", "KUBECONFIG", "MODEL_DIR")


@pytest.fixture(autouse=True)
def a_clean_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(OWN_SETTINGS):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture(scope="session")
def project() -> Path:
    return PROJECT


NOBODY = 65534


@pytest.fixture
def become_somebody(tmp_path: Path) -> Iterator[Callable[[], None]]:
    """Become a user without rights, where the tests are root, who may read and write everywhere."""
    was_root = os.geteuid() == 0
    everybodys = Path(tempfile.gettempdir()).resolve()
    for folder in (tmp_path, *tmp_path.parents):
        if folder in {everybodys, *everybodys.parents}:
            break
        folder.chmod(0o755)

    def become() -> None:
        if was_root:
            os.seteuid(NOBODY)

    yield become
    if was_root:
        os.seteuid(0)
