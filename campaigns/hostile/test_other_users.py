"""Another user of the machine, beside an Airflow that has run a test: no file of it can be read or made."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from airflow_home import Home
from campaigns.hostile.attack import Attack
from campaigns.hostile.deeds import HONEST, command
from campaigns.hostile.held_child import held

Begin = Callable[[str], Attack]
NOBODY = 65534
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # a fork of a process with threads
    pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user"),
]


def test_files_of_airflow(home: Home, attack: Begin) -> None:
    """Airflow's database, settings and passwords, the warehouse, the local cluster's token, and everything beside."""
    home.add_test("innocent", command=command(*HONEST))
    home.run("innocent")
    paths = [home.path, *home.path.rglob("*")]
    names = {path.name for path in paths}
    with attack("S8 files of Airflow that another user may read or write") as tried:
        for wanted in ("airflow.cfg", "airflow.db", "warehouse.db", "innocent.yaml", "run.json"):
            tried.variant(f"{wanted} is there", held=wanted in names)
        ended = held(partial(reached_by_nobody, paths))
        tried.variant("looking at all files", held=ended.well, reached=ended.how)
        for path in paths:
            tried.variant(str(path), held=ended.well and path not in ended.value, reached=path)


def reached_by_nobody(paths: list[Path]) -> set[Path]:
    """Return what a user without any group may open, or write to."""
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    return {path for path in paths if os.access(path, os.R_OK) or os.access(path, os.W_OK)}
