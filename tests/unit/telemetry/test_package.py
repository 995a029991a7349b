"""The package as a wheel: small, alone, and for Pythons that are older than those of the rest."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
import tomllib
from email.parser import BytesParser
from pathlib import Path
from zipfile import ZipFile

import pytest
from setuptools import find_packages

import ml_metrics
import ml_metrics.telemetry
import ml_metrics_telemetry
from ml_metrics.measure.goodput import measure

SOURCE = Path(ml_metrics_telemetry.__file__).resolve().parent
FILES = sorted(SOURCE.glob("*.py"))
DISTRIBUTION = SOURCE.parents[1] / "packages" / "telemetry"
OLDEST = (3, 9)
PYTHONS = [(3, minor) for minor in range(OLDEST[1], 15)]
LARGEST = 100_000
LOOP = """
from ml_metrics_telemetry import JsonLinesMetricHandler, TensorBoardMetricHandler, Training, configure, get_stream, prof

configure(JsonLinesMetricHandler())
configure(TensorBoardMetricHandler(), group="loader")

@prof
def train(batch):
    return 0.5 * batch

with Training() as training:
    for step, batch in training.steps(range(5)):
        training.log(step, loss=train(batch))
        get_stream("loader").add_value("queue_length", step)
        with training.save(step):
            pass
"""
HEAVY = {
    "asyncio", "concurrent", "ctypes", "dataclasses", "email", "http", "inspect", "multiprocessing", "pathlib",
    "selectors", "socket", "ssl", "subprocess", "tempfile", "unittest", "urllib", "uuid", "xml",
}  # fmt: skip
"""Modules of the standard library that cost as much as the package, or start something."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("telemetry")
    copy = folder / "source"
    shutil.copytree(DISTRIBUTION, copy, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "build"))
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*build, "--wheel-dir", str(folder), str(copy)], check=True, capture_output=True, timeout=120)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path) -> Path:
    folder = wheel.parent / "site"
    with ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def python(version: tuple[int, int]) -> str | None:
    """Return a Python of this machine."""
    name = f"python{version[0]}.{version[1]}"
    own = sorted(Path.home().glob(f".pyenv/versions/{version[0]}.{version[1]}.*/bin/{name}"))
    return str(own[-1]) if own else shutil.which(name)


def run(executable: str, program: str, site: Path, folder: Path) -> str:
    done = subprocess.run(
        [executable, "-S", "-W", "error", "-c", program],
        env={"PYTHONPATH": str(site), "ML_METRICS_RUN_DIR": str(folder), "JOB_NAME": "job"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_grammar_is_that_of_the_oldest_python(file: Path) -> None:
    ast.parse(file.read_bytes(), feature_version=OLDEST)


def test_no_name_is_newer_than_the_oldest_python() -> None:
    rule = [f"-t={OLDEST[0]}.{OLDEST[1]}-", "--violations", "--eval-annotations", "--no-tips", "--processes=1"]
    command = [str(Path(sys.executable).with_name("vermin")), "--quiet", *rule, *map(str, FILES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stdout.strip()) == (0, "")


@pytest.mark.parametrize("version", PYTHONS, ids=lambda version: ".".join(map(str, version)))
def test_a_program_runs_with_every_python_and_is_read(
    version: tuple[int, int], installed: Path, tmp_path: Path
) -> None:
    executable = python(version)
    if executable is None:
        pytest.skip(f"Python {version[0]}.{version[1]} is not installed here")
    run(executable, LOOP, installed, tmp_path)
    report = measure(str(tmp_path))
    assert (report.ended, report.last_step, report.warnings) == (True, 4, ())
    tags = {series.tag: len(series) for series in ml_metrics.read_events(tmp_path).series}
    assert tags == {"loss": 5, "loader/queue_length": 5}
    assert len((tmp_path / "telemetry.jsonl").read_text().splitlines()) == 10


def test_importing_imports_nothing_heavy(installed: Path, tmp_path: Path) -> None:
    program = "import sys, ml_metrics_telemetry; print(*sorted(sys.modules))"
    found = set(run(sys.executable, program, installed, tmp_path).split())
    own = {name.partition(".")[2] for name in found if name.startswith("ml_metrics_telemetry.")}
    own -= {"destinations", "event_file", "handlers", "local_files", "record_log", "recorder", "scalars", "streams"}
    assert own == {"training"}
    assert {name.partition(".")[0] for name in found} & HEAVY == set()
    assert {name.partition(".")[0] for name in found} - sys.stdlib_module_names == {"__main__", "ml_metrics_telemetry"}


def test_the_wheel_is_small_whole_and_alone(wheel: Path) -> None:
    assert wheel.stat().st_size < LARGEST
    with ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (BytesParser().parsebytes(archive.read(name)) for name in names if name.endswith("/METADATA"))
    inside = {name.partition("/")[2] for name in names if name.startswith("ml_metrics_telemetry/")}
    assert inside == {file.name for file in FILES} | {"py.typed"}
    assert (metadata["Requires-Python"], metadata.get_all("Requires-Dist")) == (">=3.9", None)
    assert metadata["Version"] == ml_metrics.__version__, "both are released together"


def test_the_wheel_of_ml_metrics_requires_this_one_and_does_not_contain_it() -> None:
    """A file that two distributions own is gone when one of them is removed."""
    config = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text())
    assert f"ml-metrics-telemetry=={ml_metrics.__version__}" in config["project"]["dependencies"]
    find = config["tool"]["setuptools"]["packages"]["find"]
    packages = find_packages(str(SOURCE.parent), include=find["include"])
    assert {name.partition(".")[0] for name in packages} == {"ml_metrics"}


def test_ml_metrics_has_the_same_objects_under_the_older_name() -> None:
    for name in ml_metrics_telemetry.__all__:
        assert getattr(ml_metrics.telemetry, name) is getattr(ml_metrics_telemetry, name)


def test_the_example_of_its_readme_runs(installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (example,) = [
        block.partition("```")[0] for block in (DISTRIBUTION / "README.md").read_text().split("```python\n")[1:]
    ]
    run(sys.executable, example, installed, tmp_path)
    assert measure(str(tmp_path / "run")).last_step == 2
    assert [len(series) for series in ml_metrics.read_events(tmp_path / "run" / "tensorboard").series] == [3]
