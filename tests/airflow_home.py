"""An Airflow home for tests, with the layout that `make install` creates."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import run_dags
from local_kube import LocalCluster
from local_kube.pods.confinement import Confinement
from ml_metrics.clusters.manifests import RUN_FOLDER_ANNOTATION
from ml_metrics.warehouse import Warehouse, open_warehouse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from local_kube.node import Node

PROJECT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent


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
        cfg = path / "airflow.cfg"
        subprocess.run(["make", "-s", f"AIRFLOW_HOME={path}", f"{path}/airflow.db"], cwd=PROJECT, check=True)
        cfg.write_text(f"{cfg.read_text()}config_root = {home.configs}\n")
        return home

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
        return subprocess.run(
            ["airflow", *argv],
            env={**self.environment, **more},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    def run(self, test: str, conf: Mapping[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
        """Run a test through `airflow dags test`."""
        return self.airflow("dags", "test", test, *(["--conf", json.dumps(conf)] if conf else []))

    def run_all(self, tests: Sequence[str], **more: str) -> dict[str, tuple[int, str]]:
        """Run tests one after the other, and return each test's exit code and output."""
        done = subprocess.run(
            [sys.executable, run_dags.__file__, *tests],
            env={**self.environment, **more},
            capture_output=True,
            text=True,
            check=False,
            timeout=60 + 60 * len(tests),
        )
        found = run_dags.parse_output(done.stdout)
        assert set(found) == set(tests), done.stdout[-3000:] + done.stderr[-3000:]
        return found

    def warehouse(self) -> Warehouse:
        return open_warehouse(f"sqlite:///{self.path}/ml_metrics/warehouse.db")

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
        self.local_cluster().stop()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """An Airflow for the tests of one file, so that no file is affected by another's."""
    made = Home.make(tmp_path_factory.mktemp("airflow"))
    yield made
    made.stop()
