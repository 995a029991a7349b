"""docs/install.md, followed step by step with the built wheels: one DAG file, one test file, a verdict."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from airflow_home import PROJECT
from local_kube import LocalCluster
from ml_metrics.warehouse import open_warehouse

pytestmark = [pytest.mark.e2e]

PAGE = (PROJECT / "docs" / "install.md").read_text()
OURS = re.compile(r"(__editable__|_*ml[_-]metrics|local[_-]kube)", re.IGNORECASE)
SOURCES = ("LICENSE", "MANIFEST.in", "README.md", "include", "packages", "plugins", "pyproject.toml", "setup.py")
LOOK = """
import json, ml_metrics
from airflow import plugins_manager
from airflow.providers_manager import ProvidersManager
from ml_metrics.core.extras import included
plugins, errors = plugins_manager._get_plugins()
print(json.dumps({
    "package": ml_metrics.__file__, "errors": errors,
    "provider": "airflow-provider-ml-metrics" in ProvidersManager().providers,
    "plugins": [type(one.source).__name__ for one in plugins if one.name == "ml_metrics"],
    "included": [path.name for path in included("").rglob("*") if path.is_file() and path.suffix != ".pyc"],
}))
"""


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return str(found)


def build(folder: Path) -> list[Path]:
    """Build the wheels as the page does, from a copy: a build writes beside its sources."""
    sources = folder / "sources"
    sources.mkdir()
    for name in SOURCES:
        path = PROJECT / name
        copy = shutil.copytree if path.is_dir() else shutil.copy
        copy(path, sources / name)
    (line,) = (line for line in PAGE.splitlines() if line.startswith("$ python -m pip wheel"))
    command = [sys.executable, *shlex.split(line)[2:], "--no-build-isolation", "--no-index", "--quiet"]
    subprocess.run(command, cwd=sources, check=True)
    return sorted((sources / "dist").glob("*.whl"))


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """An environment with the wheels, whose dependencies are links to those of the tests; and an empty Airflow home."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder / "venv", symlinks=True)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder / "venv")}))
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if not OURS.match(path.name):
            (packages / path.name).symlink_to(path)
    python, airflow = folder / "venv" / "bin" / "python", folder / "venv" / "bin" / "airflow"
    airflow.write_text(f"#!{python}\nfrom airflow.__main__ import main\n\nmain()\n")
    airflow.chmod(0o755)
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", "--quiet"]
    subprocess.run([*install, *map(str, build(folder))], check=True)
    home = folder / "airflow"
    yield {
        **{name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}},
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONWARNINGS": "",
    }
    LocalCluster(str(home / "ml_metrics" / "cluster")).stop()


def test_a_wheel_one_dag_file_and_one_test_file_give_a_verdict(environment: Mapping[str, str]) -> None:
    home = Path(environment["AIRFLOW_HOME"])
    (home / "dags").mkdir(parents=True)
    (home / "dags" / "tests.py").write_text(block("python"))
    (home / "include" / "metric_configs").mkdir(parents=True)
    (home / "include" / "metric_configs" / "hello.yaml").write_text(block("yaml"))
    done = {line: run(shlex.split(line), environment) for line in block("bash").splitlines()}
    assert done["ml-metrics validate"] == "1 file, 1 test: no problems.\n"
    assert "pass" in done["ml-metrics history hello-cpu"]
    with open_warehouse(f"sqlite:///{home}/ml_metrics/warehouse.db") as warehouse:
        (job,) = warehouse.runs.newest("hello-cpu", limit=2)
        (metric,) = warehouse.metrics.values("hello-cpu", "total_wall_time")
    assert (job.job_status, job.verdict, metric.outcome) == ("success", "pass", "pass")


def test_airflow_finds_the_plugin_the_provider_and_the_files(environment: Mapping[str, str]) -> None:
    found = json.loads(run(["python", "-c", LOOK], environment).splitlines()[-1])
    assert Path(environment["AIRFLOW_HOME"]).with_name("venv") in Path(found["package"]).parents
    assert found["errors"] == {}
    assert found["plugins"] == ["EntryPointSource"]
    assert found["provider"]
    shipped = {path.name for path in (PROJECT / "include" / "templates").iterdir()}
    assert set(found["included"]) == {*shipped, "digits.py", "mnist-cpu.yaml"}


def run(argv: list[str], environment: Mapping[str, str]) -> str:
    done = subprocess.run(argv, env=environment, cwd="/", capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    return done.stdout
