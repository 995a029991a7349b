"""The environment of a corner: its Python, the wheels of this tree, and Airflow's home with the tests to run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from matrix.corners import PROJECT, Corner

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "ml-metrics-matrix"
LOSS = (
    "import json, os; open(os.environ['MODEL_DIR'] + '/train.jsonl', 'w').write(json.dumps({'step': 1, 'loss': 0.5}))"
)
BOUNDS = {"passes": 1, "fails": 0.1}
RUNS_ON = "; import time; time.sleep(3)"
"""A workload that has ended when it is first looked at is not deferred."""
DEFERRED = """# Airflow opens only files that have the words airflow and dag in them
from ml_metrics import TestDefinition, accelerator_test

dag = accelerator_test(TestDefinition(**{definition}))
dag.get_task("run_workload").deferrable = True
"""
OWN = ("AIRFLOW", "ML_METRICS_", "PYTHON", "UV_CONSTRAINT", "VIRTUAL_ENV", "KUBECONFIG", "MODEL_DIR")


def python_of(version: str) -> Path | None:
    """Return an interpreter that starts. A shim of pyenv is on the path for versions that it does not start."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or "~/.pyenv").expanduser()
    named = [Path(folder) / f"python{version}" for folder in os.get_exec_path()]
    for one in (*named, *sorted(pyenv.glob(f"versions/{version}.*/bin/python"), reverse=True)):
        if one.exists() and not subprocess.run([one, "-c", ""], check=False, capture_output=True).returncode:
            return one
    return None


def build_wheels(folder: Path) -> list[Path]:
    """Build the wheels from a copy of the tree, because a build leaves files beside its sources."""
    copy = folder / "tree"
    copy_tree(copy)
    for package in (copy, copy / "packages" / "telemetry", copy / "packages" / "local-kube"):
        uv("build", "--quiet", "--wheel", "--out-dir", str(folder / "wheels"), str(package))
    return sorted((folder / "wheels").glob("*.whl"))


def copy_tree(copy: Path) -> None:
    """Copy what a clone of this tree would have, and what is new in it."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=PROJECT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    for name in filter(None, listed.stdout.split("\0")):
        if (PROJECT / name).exists():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(PROJECT / name, copy / name, follow_symlinks=False)  # the source of telemetry is a link


def install(corner: Corner, python: Path, wheels: Sequence[Path]) -> Path:
    """Make the environment of a corner anew, and return its interpreter."""
    place = CACHE / corner.name
    remove(corner)  # what an interrupted one has left is no environment
    uv("venv", "--quiet", "--python", str(python), str(place))
    inside = place / "bin" / "python"
    wanted = [
        f"{wheel}[google]" if wheel.name.startswith("airflow_provider_ml_metrics-") else str(wheel) for wheel in wheels
    ]
    uv("pip", "install", "--quiet", "--python", str(inside), *corner.constraints, *wanted, *corner.requirements)
    return inside


def remove(corner: Corner) -> None:
    shutil.rmtree(CACHE / corner.name, ignore_errors=True)


def make_home(home: Path) -> None:
    """Write the DAG files and tests of a corner: this project's own DAGs, and a test of each kind."""
    tests = home / "tests"
    tests.mkdir(parents=True)
    shutil.copytree(PROJECT / "dags", home / "dags", ignore=shutil.ignore_patterns("__pycache__"))
    for name, bound in BOUNDS.items():
        (tests / f"{name}.yaml").write_text(json.dumps(definition(name, bound)))  # JSON is also YAML
    (tests / "hosts.yaml").write_text(json.dumps({**definition("hosts", 1), "hosts": 2}))
    deferred = {**definition("deferred", 1), "command": ["python3", "-c", LOSS + RUNS_ON]}
    (home / "dags" / "deferred.py").write_text(DEFERRED.format(definition=deferred))


def definition(name: str, bound: float) -> dict[str, object]:
    condition = {"comparison": "less", "success_threshold": {"fixed_value": bound}}
    return {
        "name": name,
        "image": "local/image:1",
        "command": ["python3", "-c", LOSS],
        "owner": "a-new-user",
        "regression_test_config": {"metric_success_conditions": {"loss_final": condition}},
    }


def environment(home: Path, inside: Path) -> dict[str, str]:
    """Return the environment of a corner, with none of the person's own settings."""
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(OWN)},
        "PATH": f"{inside.parent}:{os.environ['PATH']}",
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__ML_METRICS__CLUSTER": "local",
        "AIRFLOW__ML_METRICS__CONFIG_ROOT": str(home / "tests"),
    }


def uv(*argv: str) -> None:
    """Run uv; end with its own words if it fails. A corner compiles what it imports, a seventh of what it has."""
    inherited = {**os.environ, "UV_COMPILE_BYTECODE": "0"}
    done = subprocess.run(["uv", *argv], cwd=CACHE, env=inherited, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.stderr.write(done.stderr)
        raise SystemExit(f"uv {' '.join(argv)} failed")
