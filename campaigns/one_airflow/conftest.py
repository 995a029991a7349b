"""One Airflow for the files of this folder: it takes longer to start than their tests."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from airflow_home import PROJECT, Home, make_ordinary_home
from campaigns.one_airflow import (
    test_decisions,
    test_killed_comparisons,
    test_killed_tasks,
    test_reruns,
    test_standalone,
)
from standalone_airflow import KILLS, Standalone, standalone

FILES = (test_decisions, test_killed_comparisons, test_killed_tasks, test_reruns, test_standalone)

home = pytest.fixture(scope="package")(make_ordinary_home)


@pytest.fixture(scope="package")
def airflow(home: Home) -> Iterator[Standalone]:
    dags = home.path / "dags"
    shutil.copytree(PROJECT / "dags", dags, ignore=shutil.ignore_patterns("__pycache__", "mnist_cpu.py"))
    (dags / "ml_decide.py").write_text(f'"""An Airflow DAG."""\n{test_decisions.SOON}')
    users = "simple_auth_manager_users = admin:admin,uma:user,vera:viewer"
    text = home.configuration.read_text().replace(f"dags_folder = {PROJECT}/dags", f"dags_folder = {dags}")
    assert str(dags) in text
    text = text.replace("[core]\n", f"[core]\n{users}\n", 1)
    home.configuration.write_text(f"{text}local_image = {PROJECT}\n")
    home.write_policy(KILLS + test_killed_tasks.POLICY)
    for file in FILES:
        file.add_tests(home)
    with standalone(home) as running:
        yield running
