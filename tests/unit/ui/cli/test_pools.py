"""`ml-metrics pools`, with a program in the place of `airflow`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from unit.ui.cli.shell import Shell

AIRFLOW = """#!/bin/sh
[ "$2" = list ] && exec cat pools.json
echo "$@" >> calls
echo '[{"pool": "tpu", "slots": "4"}]' > pools.json
"""
TEST_FILE = "{name: a-test, image: i, command: [c], pool: tpu}"


@pytest.fixture(autouse=True)
def airflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("airflow").write_text(AIRFLOW)
    Path("airflow").chmod(0o755)
    Path("pools.json").write_text("[]")
    Path("configs").mkdir()
    Path("configs/a.yaml").write_text(TEST_FILE)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("AIRFLOW__ML_METRICS__CONFIG_ROOT", "configs")


def test_a_missing_pool_is_a_no_until_it_is_created(ml: Shell) -> None:
    assert ml("pools", code=1).splitlines()[1].split() == ["tpu", "missing", "a-test"]
    assert ml.json("pools", "--create", "4") == {"pools": [{"pool": "tpu", "slots": 4, "tests": ["a-test"]}]}
    assert Path("calls").read_text() == "pools set tpu 4 accelerators of tests --include-deferred\n"


def test_without_pools_airflow_is_not_called(ml: Shell) -> None:
    Path("configs/a.yaml").write_text(TEST_FILE.replace(", pool: tpu", ""))
    Path("airflow").unlink()
    assert ml("pools") == "No test uses a pool: the setting `pools` is empty.\n"


def test_a_mistyped_folder_is_an_error(monkeypatch: pytest.MonkeyPatch, ml: Shell) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__CONFIG_ROOT", "confgs")
    assert ml("pools", code=2) == "ml-metrics pools: confgs: there is no such folder of test files\n"


def test_an_error_of_airflow_is_passed_on(ml: Shell) -> None:
    Path("airflow").write_text("#!/bin/sh\necho 'no such table: slot_pool' >&2; exit 1\n")
    assert "airflow pools list failed: no such table: slot_pool" in ml("pools", code=2)
