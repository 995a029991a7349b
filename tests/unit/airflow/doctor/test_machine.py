"""How many tasks suit a machine, and what `ml-metrics doctor` says about more."""

from __future__ import annotations

import subprocess

import pytest

from airflow_home import PROJECT
from ml_metrics import ConfigError
from ml_metrics.airflow.doctor import tasks_at_once, tasks_on_this_machine

GB = 1000


@pytest.mark.parametrize(
    ("cores", "memory_mb", "tasks"),
    [(1, 2 * GB, 2), (2, 8 * GB, 8), (2, 4 * GB, 6), (8, 16 * GB, 32), (16, 4 * GB, 6), (64, 1 * GB, 2)],
)
def test_cores_and_memory_decide_and_the_script_has_the_same_rule(cores: int, memory_mb: int, tasks: int) -> None:
    script = ["sh", str(PROJECT / "deploy" / "tasks-at-once.sh"), str(cores), str(memory_mb)]
    printed = subprocess.run(script, check=True, capture_output=True, text=True).stdout
    assert tasks_at_once(cores, memory_mb) == tasks == int(printed)


@pytest.mark.parametrize(
    ("parallelism", "seconds", "advice"),
    [
        ("4", "30", ""),
        ("16", "30", ""),
        ("50", "120", ""),
        ("32", "30", "set [core] parallelism to 8, or dagbag_import_timeout to 120"),
        ("80", "120", "too little memory"),
    ],
)
def test_more_than_the_machine_can_start_is_said(
    parallelism: str, seconds: str, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__PARALLELISM", parallelism)
    monkeypatch.setenv("AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT", seconds)
    found = tasks_on_this_machine(2, 24 * GB)
    assert found.startswith(f"at most {parallelism} at once on 2 cores and 24 GB")
    assert advice in found if advice else found.endswith("GB")


def test_what_is_no_number_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__PARALLELISM", "many")
    with pytest.raises(ConfigError, match=r"\[core\] parallelism is 'many'"):
        tasks_on_this_machine(2, 24 * GB)
