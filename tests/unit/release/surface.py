"""Everything that CHANGELOG.md promises to keep, one line for each name."""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import inspect
import json
import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import ml_metrics
from ml_metrics import TestDefinition, telemetry
from ml_metrics.core.settings import Settings
from ml_metrics.ui import cli
from ml_metrics.ui.cli.commands import COMMANDS, parser_of
from ml_metrics.warehouse import TABLES
from release.tree import PROJECT


def surface(folder: Path) -> list[str]:
    """Return all names, sorted. The folder is used to run commands in."""
    return sorted({*settings(), *test_files(), *tables(), *commands(), *python(), *json_documents(folder)})


def settings() -> Iterator[str]:
    for field in dataclasses.fields(Settings):
        yield f"setting {field.name}"


def test_files() -> Iterator[str]:
    """Yield the keys, and the words that some of them take."""
    schema = TestDefinition.model_json_schema()
    for name, record in {"TestDefinition": schema, **schema["$defs"]}.items():
        yield from (f"test file: {name}.{key}" for key in record.get("properties", {}))
        yield from (f"test file: {name} = {word}" for word in record.get("enum", ()))
        for key, value in record.get("properties", {}).items():
            yield from (f"test file: {name}.{key} = {word}" for word in words(value))


def words(value: Any) -> Iterator[str]:
    """Yield the words in the schema of a value."""
    if isinstance(value, dict):
        yield from value.get("enum", ())
        yield from (value.get("propertyNames") or {}).get("enum", ())
        for inner in (*value.get("anyOf", ()), value.get("additionalProperties"), value.get("items")):
            yield from words(inner)


def tables() -> Iterator[str]:
    for table in TABLES:
        yield from (f"table {table.name}.{column.name}" for column in table.columns)


def commands() -> Iterator[str]:
    for name in COMMANDS:
        yield f"command {name}"
        for action in parser_of(name)._actions:
            yield from (f"command {name} {option}" for option in action.option_strings)
            if not action.option_strings:
                yield f"command {name} {action.metavar or action.dest}"
            if isinstance(action.choices, Mapping | tuple | list) and not isinstance(action, argparse._HelpAction):
                yield from (f"command {name} {action.metavar or action.dest} = {choice}" for choice in action.choices)


def python() -> Iterator[str]:
    for module in (ml_metrics, telemetry):
        for name in getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]:
            value = getattr(module, name)
            yield f"python {module.__name__}.{name}"
            yield from (f"python {module.__name__}.{name}({parameter})" for parameter in parameters(value))


def parameters(value: Any) -> list[str]:
    # the keys of a model are those of a test file
    if (
        not callable(value)
        or hasattr(value, "model_fields")
        or (inspect.isclass(value) and issubclass(value, Exception))
    ):
        return []
    return [name for name in inspect.signature(value).parameters if not name.startswith("_")]


def json_documents(folder: Path) -> Iterator[str]:
    """Yield the keys of the documents that commands print with `--json`, for the examples of docs/cli.md."""
    make_cli = load_make_cli()
    with chdir(folder), patch.dict(os.environ, make_cli._environment(str(folder))):
        make_cli._prepare()
        for name, lines in make_cli.examples().items():
            options = {option for action in parser_of(name)._actions for option in action.option_strings}
            for line in lines if "--json" in options else ():
                command, _, file = line.partition(" > ")
                printed = StringIO()
                with redirect_stdout(printed), redirect_stderr(StringIO()):
                    cli.main([argument for argument in [*shlex.split(command)[1:], "--json"] if argument != "--jsonl"])
                if file:
                    Path(file).write_text(printed.getvalue())
                yield from (f"json of {name}: {key}" for key in keys(json.loads(printed.getvalue())))


def keys(document: Any, where: str = "") -> Iterator[str]:
    """Yield the keys of a document and of the objects in its lists. Those of objects in objects may be data."""
    if isinstance(document, list):
        for each in document:
            yield from keys(each, f"{where}[]")
    elif isinstance(document, dict) and (not where or where.endswith("[]")):
        for key, value in document.items():
            yield f"{where}.{key}".lstrip(".")
            yield from keys(value, f"{where}.{key}")


def load_make_cli() -> ModuleType:
    described = importlib.util.spec_from_file_location("make_cli", PROJECT / "docs" / "make_cli.py")
    assert described is not None
    assert described.loader is not None
    module = importlib.util.module_from_spec(described)
    described.loader.exec_module(module)
    return module
