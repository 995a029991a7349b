from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from ml_metrics import ConfigError
from ml_metrics.core.settings import Settings


def write_cfg(home: Path, text: str) -> None:
    home.mkdir(parents=True, exist_ok=True)
    (home / "airflow.cfg").write_text(text)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "airflow"


def test_defaults_work_without_any_setting(home: Path) -> None:
    settings = Settings.load()
    assert settings.storage_root == str(home / "ml_metrics" / "runs")
    assert settings.config_root == str(home / "include" / "metric_configs")
    assert settings.cluster == "auto"


def test_airflow_cfg_is_read(home: Path) -> None:
    write_cfg(
        home, "[core]\ndags_folder = /srv/dags\n[ml_metrics]\ndeployment = prod\nstorage_root = gs://bucket/50%\n"
    )
    settings = Settings.load()
    assert settings.deployment == "prod"
    assert settings.storage_root == "gs://bucket/50%"
    assert settings.config_root == "/srv/include/metric_configs"


def test_a_variable_overrides_the_file_and_empty_means_default(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_cfg(home, "[ml_metrics]\ndeployment = prod\n")
    monkeypatch.setenv("AIRFLOW__ML_METRICS__DEPLOYMENT", "dev")
    assert Settings.load().deployment == "dev"
    monkeypatch.setenv("AIRFLOW__ML_METRICS__DEPLOYMENT", "")
    assert Settings.load().deployment == "local"


def test_a_value_may_come_from_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__DATASET_CMD", "echo secret_dataset")
    assert Settings.load().dataset == "secret_dataset"
    monkeypatch.setenv("AIRFLOW__ML_METRICS__DATASET_CMD", "no-such-program --password hunter2")
    with pytest.raises(ConfigError, match="DATASET_CMD") as error:
        Settings.load()
    assert "hunter2" not in str(error.value)


def test_test_files_inside_the_dags_folder_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = tmp_path / "dags" / "include" / "metric_configs"
    inside.mkdir(parents=True)
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(tmp_path / "dags"))
    assert Settings.load().config_root == str(inside)


def test_an_invalid_airflow_cfg_is_an_error_that_names_it(home: Path) -> None:
    write_cfg(home, "no section\n")
    with pytest.raises(ConfigError, match=r"airflow\.cfg"):
        Settings.load()


@pytest.mark.parametrize("field", [field.name for field in fields(Settings)])
def test_every_setting_has_its_variable(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"AIRFLOW__ML_METRICS__{field.upper()}", "something")
    assert getattr(Settings.load(), field) == "something"
