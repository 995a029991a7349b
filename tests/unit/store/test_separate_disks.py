"""Where tasks run on several machines, a folder of one of them is no place for what the others must see."""

from __future__ import annotations

from pathlib import Path

import pytest

from ml_metrics import ConfigError
from ml_metrics.airflow import connections
from ml_metrics.core.errors import WarehouseError
from ml_metrics.core.settings import Settings
from ml_metrics.store.disks import check_folders, folder_problems, separate_disks
from ml_metrics.store.documents import signing_key

EXECUTOR = "AIRFLOW__CORE__EXECUTOR"


@pytest.mark.parametrize(
    ("executor", "where"),
    [
        ("", ""),
        ("LocalExecutor", ""),
        ("mine:airflow.executors.local_executor.LocalExecutor", ""),
        ("CeleryExecutor", "with CeleryExecutor"),
        ("LocalExecutor, KubernetesExecutor", "with KubernetesExecutor"),
        ("celery:airflow.providers.celery.executors.celery_executor.CeleryExecutor", "with CeleryExecutor"),
        ("LocalExecutor;team_a=LocalExecutor,CeleryExecutor", "with CeleryExecutor"),
        ("our.own.Executor", "with Executor"),
    ],
)
def test_the_executor_decides(executor: str, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(EXECUTOR, executor)
    assert separate_disks(Settings.load()) == where


def test_the_pod_of_a_task_is_a_machine_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Helm's chart tells it that the executor is the LocalExecutor."""
    monkeypatch.setenv(EXECUTOR, "LocalExecutor")
    monkeypatch.setenv("AIRFLOW_IS_K8S_EXECUTOR_POD", "True")
    assert separate_disks(Settings.load()) == "with KubernetesExecutor"


def test_every_folder_that_others_must_see_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    assert folder_problems(Settings.load()) == ()
    monkeypatch.setenv(EXECUTOR, "CeleryExecutor")
    settings = Settings.load()
    root, box = folder_problems(settings)
    assert f"storage_root: {settings.storage_root} is on the disk of one machine, and with CeleryExecutor" in root
    assert "gs://my-bucket/runs" in root
    assert "shared_disk = yes" in root
    assert "[ml_metrics] outbox" in box
    with pytest.raises(ConfigError, match=r"storage_root.*outbox"):
        check_folders(settings)


def test_folders_in_a_bucket_or_on_a_shared_disk_are_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(EXECUTOR, "CeleryExecutor")
    monkeypatch.setenv("AIRFLOW__ML_METRICS__STORAGE_ROOT", "gs://bucket/runs")
    monkeypatch.setenv("AIRFLOW__ML_METRICS__CHANNELS", "smtp")
    check_folders(Settings.load())
    monkeypatch.setenv("AIRFLOW__ML_METRICS__CHANNELS", "smtp, outbox")
    with pytest.raises(ConfigError, match="outbox"):
        check_folders(Settings.load())
    monkeypatch.setenv("AIRFLOW__ML_METRICS__SHARED_DISK", "yes")
    check_folders(Settings.load())


def test_no_file_takes_the_place_of_a_warehouse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(EXECUTOR, "CeleryExecutor")
    with pytest.raises(WarehouseError, match="a file in its place would be another one on each"):
        connections.warehouse()
    with pytest.raises(ConfigError, match="`ml_metrics_warehouse` of the warehouse cannot be read or is not defined"):
        connections.check_warehouse(Settings.load())


def test_workloads_do_not_become_processes_of_one_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    assert connections.uses_local_cluster(Settings.load())
    monkeypatch.setenv(EXECUTOR, "CeleryExecutor")
    assert not connections.uses_local_cluster(Settings.load())
    monkeypatch.setenv("AIRFLOW__ML_METRICS__CLUSTER", "local")
    assert connections.uses_local_cluster(Settings.load()), "somebody has chosen it"


def test_no_machine_makes_a_key_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each task would take the documents of the others for planted ones."""
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", "")
    assert signing_key()
    monkeypatch.setenv(EXECUTOR, "CeleryExecutor")
    with pytest.raises(ConfigError, match=r"documents_key: must be set.*with CeleryExecutor"):
        signing_key()
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", "x" * 32)
    assert signing_key()
