"""Write the table of rooms in docs/contributing.md from the import contract and the rooms. `make docs` calls this."""

# ruff: noqa: INP001  (a script, no package)
from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
PAGE = PROJECT / "docs" / "contributing.md"


def with_rooms(page: str) -> str:
    """Return the page with the table: a room is on the floor that the contract gives it, and says what it is for."""
    contracts = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (floors,) = (one["layers"] for one in contracts if one["type"] == "layers" and one["containers"] == ["ml_metrics"])
    rows = ["| floor | room | what is there |", "| --- | --- | --- |"]
    for floor, names in zip(range(len(floors), 0, -1), floors, strict=True):
        for name in names.split(" | "):
            module = ast.parse((PROJECT / "plugins" / "ml_metrics" / name / "__init__.py").read_text())
            what = (ast.get_docstring(module) or "").split("\n\n")[0].replace("\n", " ")
            rows.append(f"| {floor} | `{name}/` | {what} |")
    table = "\n".join(rows)
    return re.sub(
        r"<!-- rooms -->.*?<!-- end -->", lambda _: f"<!-- rooms -->\n\n{table}\n\n<!-- end -->", page, flags=re.DOTALL
    )


if __name__ == "__main__":
    PAGE.write_text(with_rooms(PAGE.read_text()))
