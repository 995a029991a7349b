"""An Airflow home for tests, with the layout that `make install` creates."""

from __future__ import annotations

import atexit
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

from local_kube import LocalCluster
from local_kube.pods.confinement import Confinement
from ml_metrics.airflow.clusters.manifests import RUN_FOLDER_ANNOTATION
from ml_metrics.warehouse import Warehouse, open_warehouse
from warm_airflow import WarmAirflow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from local_kube.node import Node

PROJECT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
AIRFLOWS_OWN = re.compile("AIRFLOW__(?!ML_METRICS__)|OTEL_|PATH$")
"""Variables that Airflow, or a library of it, reads when it is imported. All others are read when they are needed."""


_warm: dict[frozenset[tuple[str, str]], WarmAirflow] = {}
"""Processes by what Airflow and its libraries read when they are imported. Those of an ordinary home are kept: a later
home in the same place has the same."""


@dataclass(frozen=True)
class Home:
    """One Airflow with its own database, test files and warehouse."""

    path: Path

    @classmethod
    def make(cls, path: Path) -> Home:
        home = cls(path)
        home.configs.mkdir(parents=True)
        home.shared.mkdir()
        home.shared.chmod(0o777)  # workloads run as other users
        home.configuration.write_text(configuration(path))
        home.configuration.chmod(0o600)
        shutil.copy(empty_database(), path)
        return home

    @property
    def configuration(self) -> Path:
        return self.path / "airflow.cfg"

    @property
    def configs(self) -> Path:
        return self.path / "metric_configs"

    @property
    def runs(self) -> Path:
        return self.path / "ml_metrics" / "runs"

    @property
    def cluster(self) -> Path:
        return self.path / "ml_metrics" / "cluster"

    @property
    def shared(self) -> Path:
        """A folder in which workloads leave something for later ones; they reach nothing of Airflow's home."""
        return self.path.with_name(f"{self.path.name}-shared")

    @property
    def outbox(self) -> Path:
        return self.path / "ml_metrics" / "outbox"

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "AIRFLOW_HOME": str(self.path),
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "PYTHONWARNINGS": "",
            "AIRFLOW__CORE__DEFAULT_TASK_RETRY_DELAY": "1",
            "AIRFLOW__ML_METRICS__LOCAL_CLUSTER_FOLDERS": str(self.shared),
            # all failing tests here have the same owner, and fail within the same hour
            "AIRFLOW__ML_METRICS__MAILS_PER_HOUR": "1000",
            "AIRFLOW__ML_METRICS__MASS_FAILURE_TESTS": "0",
            "AIRFLOW__ML_METRICS__MASS_FAILURE_PERCENT": "0",
        }

    def add_test(self, name: str, **content: Any) -> str:
        """Write a test file. JSON is also valid YAML."""
        test = {"name": name, "image": "local/image:1", "owner": "a-new-user", "timeout": "2m", **content}
        (self.configs / f"{name}.yaml").write_text(json.dumps(test, indent=2))
        return name

    def airflow(self, *argv: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a command of Airflow."""
        return self.run_warm("airflow", *argv, **more)

    def run_warm(self, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a program that shares imports. What Airflow reads when it starts must stay as the first one met it."""
        environment = {**self.environment, **more}
        environment.pop("PYTEST_CURRENT_TEST", None)
        key = frozenset(self._read_at_start(environment).items())
        if key not in _warm:
            _warm[key] = WarmAirflow(environment)
        return _warm[key].run(command, environment)

    def _read_at_start(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return what a process of Airflow reads once: its own variables, and the files of this home."""
        files = {str(file): file.read_text() for file in (self.configuration, self.policy) if file.exists()}
        return {**files, **{name: value for name, value in environment.items() if AIRFLOWS_OWN.match(name)}}

    def run(self, test: str, conf: Mapping[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
        """Run a test through `airflow dags test`."""
        return self.airflow("dags", "test", test, *(["--conf", json.dumps(conf)] if conf else []))

    def run_all(self, tests: Sequence[str], **more: str) -> dict[str, tuple[int, str]]:
        """Run tests one after the other, and return each test's exit code and output."""
        done = {test: self.airflow("dags", "test", test, **more) for test in tests}
        return {test: (one.returncode, one.stdout) for test, one in done.items()}

    def warehouse(self) -> Warehouse:
        return open_warehouse(f"sqlite:///{self.path}/ml_metrics/warehouse.db")

    def write_policy(self, policy: str) -> None:
        """Write code that Airflow calls for each DAG and task, in every process."""
        self.policy.parent.mkdir(exist_ok=True)
        self.policy.write_text(policy)

    @property
    def policy(self) -> Path:
        return self.path / "config" / "airflow_local_settings.py"

    def mails(self, test: str) -> list[Path]:
        """Return all mails with a test's name in their subjects, oldest first."""
        found = self.outbox.glob("*.eml") if self.outbox.is_dir() else ()
        return sorted(
            (mail for mail in found if test in mail.read_text().split("\n\n")[0]), key=lambda m: m.stat().st_mtime
        )

    def local_cluster(self, node: Node | None = None) -> LocalCluster:
        """Return the cluster of the workloads, which gives them their run folders, whoever starts it."""
        confinement = Confinement(shared=(self.shared,), folder_annotation=RUN_FOLDER_ANNOTATION)
        return LocalCluster(str(self.cluster), node=node, confinement=confinement)

    def stop(self) -> None:
        """Stop what has started here. What later homes of this place can use stays, and ends with the tests."""
        ordinary = (str(self.configuration), configuration(self.path))
        for key in [one for one in _warm if ordinary not in one or str(self.policy) in dict(one)]:
            _warm.pop(key).stop()
        self.local_cluster().stop()


def make_home(home: Path, *options: str) -> None:
    """Make an Airflow home as `make install` does."""
    environment = {**os.environ, "AIRFLOW_HOME": str(home), "PATH": f"{BIN}:{os.environ['PATH']}"}
    subprocess.run([sys.executable, PROJECT / "deploy" / "make_home.py", *options], env=environment, check=True)


@cache
def configuration(home: Path) -> str:
    """Return the configuration that an installation makes in a home, with a folder for test files."""
    with TemporaryDirectory(prefix="ml-metrics-configuration-") as folder:
        make_home(Path(folder), "--configuration-only")
        made = Path(folder, "airflow.cfg").read_text().replace(folder, str(home))
        return f"{made}config_root = {home / 'metric_configs'}\n"


@cache
def empty_database() -> Path:
    """Return a database of Airflow as it is after an installation; making it takes longer than most tests."""
    folder = TemporaryDirectory(prefix="ml-metrics-database-")
    atexit.register(folder.cleanup)
    make_home(Path(folder.name))
    return Path(folder.name, "airflow.db")


def make_ordinary_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """Make a home in the place of the one before: a process that has imported Airflow keeps to its place."""
    place = tmp_path_factory.getbasetemp() / "airflow"
    made = Home.make(place)
    yield made
    made.stop()
    for folder in (place, made.shared):
        folder.rename(tmp_path_factory.mktemp("home-of-before") / folder.name)


home = pytest.fixture(scope="module")(make_ordinary_home)
"""An Airflow for the tests of one file, so that no file is affected by another's."""
