"""The package by itself: its imports, and the examples of its README."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from harness import ENVIRONMENT, PACKAGE, missing

README = (PACKAGE / "README.md").read_text()


def example(language: str) -> str:
    """Return the README's only example in a language."""
    (found,) = [block.partition("```")[0] for block in README.split(f"```{language}\n")[1:]]
    return found


def test_every_module_is_imported_without_any_other_project() -> None:
    program = (
        "import importlib, pkgutil, sys\n"
        "sys.modules['ml_metrics'] = None\n"  # importing it fails
        f"sys.path.insert(0, {str(PACKAGE / 'src')!r})\n"
        "import local_kube\n"
        "for module in pkgutil.walk_packages(local_kube.__path__, 'local_kube.'):\n"
        "    importlib.import_module(module.name)\n"
        "own = {name for name in sys.modules if name.startswith('local_kube.')}\n"
        "print(len(own), sorted({'airflow', 'kubernetes'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    files = list((PACKAGE / "src" / "local_kube").rglob("*.py"))
    assert done.stdout == f"{len(files) - 1} []\n"


def test_importing_the_package_imports_no_server() -> None:
    program = "import local_kube, sys; print({'starlette', 'uvicorn', 'asyncio', 'ssl'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=ENVIRONMENT)
    assert done.stdout == "set()\n"


def test_the_example_in_python(tmp_path: Path) -> None:
    environment = {**ENVIRONMENT, "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", example("python")],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=tmp_path,
        env=environment,
    )
    assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr


def test_the_example_with_kubectl(tmp_path: Path) -> None:
    if shutil.which("kubectl") is None:
        missing("kubectl is not installed on this machine")
    command = tmp_path / "bin" / "local-kube"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m local_kube.cli "$@"\n')
    command.chmod(0o755)
    path = f"{command.parent}:{ENVIRONMENT['PATH']}"
    lines = example("console").splitlines()
    script = "\n".join(line.removeprefix("$ ") for line in lines if line.startswith("$ "))
    expected = [line for line in lines if not line.startswith("$ ")]
    done = subprocess.run(
        ["bash", "-euc", script],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=tmp_path,
        env={**ENVIRONMENT, "HOME": str(tmp_path), "PATH": path},
    )
    assert (done.returncode, done.stdout.splitlines()) == (0, expected), done.stderr
