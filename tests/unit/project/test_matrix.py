"""The program that runs the corners finds a Python that starts, and takes no setting of a person."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from matrix.environments import environment, python_of

if TYPE_CHECKING:
    import pytest


def test_a_python_that_does_not_start_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shim = tmp_path / "shims" / "python9.9"
    shim.parent.mkdir()
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", str(shim.parent))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    assert python_of("9.9") is None
    inside = tmp_path / "pyenv" / "versions" / "9.9.1" / "bin"
    inside.mkdir(parents=True)
    (inside / "python").symlink_to(sys.executable)
    assert python_of("9.9") == inside / "python"


def test_a_corner_gets_no_setting_of_the_person_who_runs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AIRFLOW__CORE__EXECUTOR", "AIRFLOW_CONN_X", "PYTHONPATH", "ML_METRICS_X", "VIRTUAL_ENV"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy")
    found = environment(tmp_path, tmp_path / "bin" / "python")
    assert "x" not in found.values()
    assert (found["HTTPS_PROXY"], found["AIRFLOW_HOME"]) == ("http://proxy", str(tmp_path))
