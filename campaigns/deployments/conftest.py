"""A project of Google Cloud with one Composer environment, behind a fake `gcloud`."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from servers.compose_file import PROJECT

FAKE = PROJECT / "tests" / "servers" / "fake_gcloud.py"
WHERE = ("--environment", "nightly", "--location", "us-central1", "--storage-root", "gs://runs/of-tests")


@dataclass
class Cloud:
    """A project with one Composer environment."""

    folder: Path
    project: Path

    def deploy(self, *options: str) -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": f"{self.folder}/bin:/usr/bin:/bin",
            "FAKE_GCLOUD": str(self.folder),
            "TMPDIR": str(self.folder),
            "WAIT_SECONDS": "0",
        }
        command = ["bash", str(self.project / "deploy" / "composer.sh"), *options]
        return subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, check=False)

    @property
    def bucket(self) -> Path:
        return self.folder / "bucket"

    @property
    def software(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "software.json").read_text())
        return found

    def changes(self) -> list[list[str]]:
        """Return the calls that change something since the last call of this method."""
        calls = [json.loads(line) for line in (self.folder / "calls").read_text().splitlines()]
        (self.folder / "calls").write_text("")
        return [call for call in calls if not {"describe", "get-value", "get-iam-policy", "run"} & {*call}]

    def write(self, **state: str) -> None:
        """Change what the fake answers."""
        for name, value in state.items():
            (self.folder / name).write_text(value)


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This project with packages of one module: copying them all is what most tests would wait for."""
    project = tmp_path_factory.mktemp("project")
    for folder in ("deploy", "dags", "include"):
        shutil.copytree(PROJECT / folder, project / folder)
    for package in ("ml_metrics", "ml_metrics_telemetry"):
        (project / "plugins" / package).mkdir(parents=True)
        (project / "plugins" / package / "__init__.py").touch()
    shutil.copy(PROJECT / "plugins" / "ml_metrics_plugin.py", project / "plugins")
    return project


@pytest.fixture
def cloud(tmp_path: Path, small: Path) -> Cloud:
    program = tmp_path / "bin" / "gcloud"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {FAKE} "$@"\n')
    program.chmod(0o755)
    return Cloud(tmp_path, small)
