"""docker-compose.yaml as Docker reads it, with its variables filled in."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import yaml

PROJECT = Path(__file__).parents[2]
FILE = PROJECT / "docker-compose.yaml"
VARIABLE = re.compile(r"\$(?:\$|\{(?P<name>\w+)(?::\?(?P<message>[^}]*)|:-(?P<default>[^}]*))?\})")


class UnsetError(Exception):
    """A required variable is not set."""


def load(variables: dict[str, str]) -> dict[str, Any]:
    """Return the document with its variables filled in."""

    def value(found: re.Match[str]) -> str:
        if found[0] == "$$":
            return "$"
        given = variables.get(found["name"], "") or found["default"] or ""
        if not given and found["message"] is not None:
            raise UnsetError(found["message"])
        return given

    def fill(node: Any) -> Any:
        if isinstance(node, dict):
            return {name: fill(inner) for name, inner in node.items()}
        if isinstance(node, list):
            return [fill(inner) for inner in node]
        return VARIABLE.sub(value, node) if isinstance(node, str) else node

    document: dict[str, Any] = fill(yaml.safe_load(FILE.read_text()))
    return document


def new_env(folder: Path) -> dict[str, str]:
    """Return the variables that `deploy/make-env.sh` writes to `.env`, in a copy of the files that it needs."""
    (folder / "deploy").mkdir(parents=True)
    for name in (".env.example", "deploy/make-env.sh", "deploy/tasks-at-once.sh"):
        (folder / name).write_bytes((PROJECT / name).read_bytes())
    subprocess.run(["sh", "deploy/make-env.sh"], cwd=folder, check=True, capture_output=True)
    lines = (folder / ".env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
