"""Python files in the DAGs folder: their DAG ids, as far as their source states them, and which Airflow skips."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from ml_metrics.airflow_options import airflow_option, dags_folder

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

MAX_BYTES = 4 << 20
_QUOTED = re.compile(rb"""["']([a-z0-9][-_a-z0-9]{0,62})["']""")
_IMPORTS_US = re.compile(rb"^\s*(?:from|import)\s+ml_metrics\b", re.MULTILINE)
_MAKES_DAGS = re.compile(rb"\b(?:load_tests|tests_from|accelerator_test)\s*\(")
_ID_ARGUMENTS = {"DAG": "dag_id", "dag": "dag_id", "product_dag": "dag_id", "TestDefinition": "name"}
"""The argument that makes a DAG id, by what is called. `TestDefinition` is a test that is written in Python."""


def dag_ids_beside(names: Collection[str], root: Path) -> dict[str, Path]:
    """Return those names that are DAG ids of Python files in the DAGs folder, each with its file.

    An id that a program computes is not found. `root` is the folder of test files: in a checkout that is no Airflow
    home, the folder `dags` beside it is searched.
    """
    found: dict[str, Path] = {}
    for path in _python_files(root) if names else ():
        for name in _ids_in(path, frozenset(names)):
            found.setdefault(name, path)
    return found


def files_that_airflow_skips(root: Path) -> Iterator[Path]:
    """Yield the DAG files with tests that Airflow does not read: in its safe mode, it looks for two words first."""
    safe_mode = airflow_option("core", "dag_discovery_safe_mode") or "True"
    if safe_mode.strip().lower() not in {"t", "true", "1"}:
        return
    for path in _python_files(root):
        try:
            source = _start_of(path).lower()
        except OSError:
            continue
        is_read = b"airflow" in source and (b"dag" in source or b"asset" in source)
        of_a_copy = "ml_metrics" in path.parts  # of this package, on Composer
        if not is_read and not of_a_copy and _IMPORTS_US.search(source) and _MAKES_DAGS.search(source):
            yield path


def _python_files(root: Path) -> Iterator[Path]:
    folder = dags_folder()
    if not folder.is_dir():
        folder = root.resolve().parent.parent / "dags"
    yield from sorted(folder.rglob("*.py")) if folder.is_dir() else ()


def _start_of(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_BYTES)


def _ids_in(path: Path, names: frozenset[str]) -> Iterator[str]:
    try:
        source = _start_of(path)
        named = {text.decode() for text in _QUOTED.findall(source)} & names
        if not named:  # mostly so; parsing would take a thousand times longer
            return
        tree = ast.parse(source)
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            for value in _id_arguments(node):
                name = value.value if isinstance(value, ast.Constant) else None
                if isinstance(name, str) and name in named:
                    yield name


def _id_arguments(call: ast.Call) -> Iterator[ast.expr]:
    """Yield what may be the DAG id in a call: `DAG("x")`, `dag(dag_id="x")`, `models.DAG(dag_id="x")`."""
    called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    argument = _ID_ARGUMENTS.get(called)
    if argument == "dag_id":
        yield from call.args[:1]
    yield from (one.value for one in call.keywords if one.arg is not None and one.arg == argument)
