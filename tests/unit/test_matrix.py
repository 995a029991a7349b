"""The program that runs the corners: it finds a Python that starts, and asks for what the wheels declare."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from matrix import environments
from matrix.corners import Corner
from matrix.environments import environment, install, python_of

CORNER = Corner("3.2.2", "3.12", "2026-06-30", pins={"google": "22.1.0"})


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


def test_a_corner_installs_the_wheel_with_the_packages_of_its_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, ...]] = []
    monkeypatch.setattr(environments, "uv", lambda *argv: calls.append(argv))
    wheels = [tmp_path / "ml_metrics-1-py3-none-any.whl", tmp_path / "ml_metrics_telemetry-1-py3-none-any.whl"]
    install(CORNER, Path("python"), wheels)
    asked = calls[-1]
    assert asked[asked.index("--exclude-newer") :][:2] == ("--exclude-newer", "2026-06-30")
    assert {f"{wheels[0]}[google]", str(wheels[1])} <= set(asked)
    assert {"apache-airflow==3.2.2", "apache-airflow-providers-google==22.1.0"} <= set(asked)


def test_a_corner_gets_no_setting_of_the_person_who_runs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AIRFLOW__CORE__EXECUTOR", "AIRFLOW_CONN_X", "PYTHONPATH", "ML_METRICS_X", "VIRTUAL_ENV"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy")
    found = environment(tmp_path, tmp_path / "bin" / "python")
    assert "x" not in found.values()
    assert (found["HTTPS_PROXY"], found["AIRFLOW_HOME"]) == ("http://proxy", str(tmp_path))
