"""Airflow on a laptop waits for the lock of its SQLite file, and the demonstration finds that file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_home import make_home
from ml_metrics.ui.cli import demo

BUSY_TIMEOUTS = """
import asyncio
from airflow import settings
from sqlalchemy import text

settings.configure_orm()
with settings.engine.connect() as connection:
    print(connection.execute(text("PRAGMA busy_timeout")).scalar())

async def waits():
    async with settings.async_engine.connect() as connection:
        found = (await connection.execute(text("PRAGMA busy_timeout"))).scalar()
    await settings.async_engine.dispose()
    return found

print(asyncio.run(waits()))
"""


def test_both_engines_of_airflow_wait_a_minute_for_the_lock(tmp_path: Path) -> None:
    make_home(tmp_path, "--configuration-only")
    done = subprocess.run(
        [sys.executable, "-c", BUSY_TIMEOUTS],
        env={**os.environ, "AIRFLOW_HOME": str(tmp_path), "PYTHONWARNINGS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split()[-2:] == ["60000", "60000"], done.stdout[-2000:] + done.stderr[-2000:]
    assert (tmp_path / "airflow.db").exists()


@pytest.mark.parametrize("exists", [True, False])
def test_the_demonstration_makes_the_database_once(
    exists: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_home(tmp_path, "--configuration-only")
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "airflow").write_text(f'#!/bin/sh\necho "$@" >{tmp_path}/called\n')
    (programs / "airflow").chmod(0o755)
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    if exists:
        (tmp_path / "airflow.db").touch()
    demo._make_database()
    assert (tmp_path / "called").exists() is not exists
