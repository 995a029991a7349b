"""The docstrings of the fields of a model, which the docs repeat."""

from __future__ import annotations

import ast
import inspect

from pydantic import BaseModel


def docstrings(model: type[BaseModel]) -> dict[str, str]:
    """The docstring of each field, from the source, those that it inherits first."""
    return {name: text for base in reversed(model.__mro__) if issubclass(base, BaseModel) and base is not BaseModel
            for name, text in _own(base).items()}  # fmt: skip


def _own(model: type[BaseModel]) -> dict[str, str]:
    (tree,) = ast.parse(inspect.getsource(model)).body
    assert isinstance(tree, ast.ClassDef)
    found: dict[str, str] = {}
    for field, after in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(after, ast.Expr):
            text = ast.literal_eval(after.value)
            found[field.target.id] = " ".join(text.split()).replace("|", "\\|")
    return found
