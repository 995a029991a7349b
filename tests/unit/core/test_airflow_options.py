"""Options are read as Airflow itself reads its secrets: compared with Airflow's own parser in every combination."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import chain, combinations
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from airflow.configuration import AirflowConfigParser, conf
from airflow.secrets import BaseSecretsBackend

from ml_metrics import ConfigError
from ml_metrics.core import airflow_options
from ml_metrics.core.airflow_options import airflow_option
from ml_metrics.core.settings import Settings
from ml_metrics.store.documents import documents_keys

VARIABLE = "AIRFLOW__ML_METRICS__DATASET"
PLACES = ("", "_CMD", "_SECRET", "file", "file_cmd", "file_secret")
BACKEND = f"{__name__}.Backend"


class Backend(BaseSecretsBackend):
    """A secrets backend with three values."""

    VALUES = {"of-variable": "from the backend", "of-file": "from the backend, by the file", "fernet": "F" * 43 + "="}  # noqa: RUF012

    def get_config(self, key: str) -> str | None:
        """Return a value."""
        if key == "broken":
            raise RuntimeError("password hunter2 was refused")
        return self.VALUES.get(key)


@pytest.fixture(autouse=True)
def no_memory() -> None:
    airflow_options._output_of.cache_clear()
    airflow_options._secret.cache_clear()


@pytest.fixture
def cfg(tmp_path: Path) -> Path:
    (tmp_path / "airflow").mkdir()
    return tmp_path / "airflow" / "airflow.cfg"


@pytest.fixture
def backend() -> Any:
    with patch.object(conf, "_get_custom_secret_backend", lambda worker_mode=None: Backend()):
        yield


class AirflowsOwn(AirflowConfigParser):
    """Airflow's parser, with our option as one of its secrets."""

    sensitive_config_values = {("ml_metrics", "dataset")}  # noqa: RUF012

    def __init__(self, text: str) -> None:
        super().__init__()
        self.read_string(text)

    def _get_config_value_from_secret_backend(self, config_key: str) -> str | None:
        return Backend().get_config(config_key)


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("given", [*chain(*(combinations(PLACES, size) for size in range(len(PLACES) + 1)))])
def test_the_precedence_is_airflows(given: tuple[str, ...], cfg: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {"": "variable", "_CMD": "printf command", "_SECRET": "of-variable"}
    lines = {"file": "= file", "file_cmd": "_cmd = printf command-of-file", "file_secret": "_secret = of-file"}
    for place in given:
        if place in variables:
            monkeypatch.setenv(VARIABLE + place, variables[place])
    text = "\n".join(["[ml_metrics]", *(f"dataset{lines[place]}" for place in given if place in lines)])
    cfg.write_text(text)
    airflows = AirflowsOwn(text).get("ml_metrics", "dataset", fallback=None)
    # Airflow knows the default from the provider information
    assert (airflow_option("ml_metrics", "dataset") or Settings().dataset) == airflows


def test_a_command_runs_once_in_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = f"import pathlib; pathlib.Path({str(tmp_path / 'calls')!r}).open('a').write('x'); print('found')"
    monkeypatch.setenv(f"{VARIABLE}_CMD", f'{sys.executable} -c "{program}"')
    assert [Settings.load().dataset for _ in range(3)] == ["found"] * 3
    assert (tmp_path / "calls").read_text() == "x"


def test_a_command_that_failed_runs_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{VARIABLE}_CMD", f"cat {tmp_path / 'later'}")
    with pytest.raises(ConfigError, match="DATASET_CMD"):
        Settings.load()
    (tmp_path / "later").write_text("found")
    assert Settings.load().dataset == "found"


@pytest.mark.parametrize("command", ["no-such-program hunter2", "false hunter2", "echo 'hunter2"])
def test_no_error_shows_the_command(command: str, cfg: Path) -> None:
    cfg.write_text(f"[ml_metrics]\ndataset_cmd = {command}\n")
    with pytest.raises(ConfigError, match=r"\[ml_metrics\] dataset_cmd: the command could not be run") as error:
        Settings.load()
    assert "hunter2" not in str(error.value)
    assert error.value.__cause__ is None


def test_a_changed_file_is_read_again(cfg: Path) -> None:
    cfg.write_text("[ml_metrics]\ndataset = one\n")
    assert Settings.load().dataset == "one"
    cfg.write_text("[ml_metrics]\ndataset = another\n")
    assert Settings.load().dataset == "another"


@pytest.mark.usefixtures("backend")
def test_the_fernet_key_of_the_backend_signs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", Backend.VALUES["fernet"])
    expected = documents_keys()
    monkeypatch.delenv("AIRFLOW__CORE__FERNET_KEY")
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY_SECRET", "fernet")
    assert documents_keys() == expected


@pytest.mark.usefixtures("backend")
def test_an_error_of_the_backend_shows_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{VARIABLE}_SECRET", "broken")
    with pytest.raises(
        ConfigError, match=r"DATASET_SECRET: Airflow's secrets backend failed \(RuntimeError\)"
    ) as error:
        Settings.load()
    assert "hunter2" not in str(error.value)
    assert error.value.__cause__ is None


def test_without_a_secret_airflow_is_not_imported(tmp_path: Path) -> None:
    program = (
        "import sys; from ml_metrics.core.settings import Settings; Settings.load(); print('airflow' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert json.loads(done.stdout.lower()) is False
