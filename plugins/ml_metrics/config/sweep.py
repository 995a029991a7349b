"""`sweep`: one file defines several tests, one for each combination of values.

Tests are named after their values and not after positions, so reordering a sweep renames nothing.
"""

from __future__ import annotations

import re
from itertools import product
from math import prod
from typing import Any

from ml_metrics.config.accelerator_catalogue import accelerator
from ml_metrics.config.document import Document
from ml_metrics.config.naming import as_name
from ml_metrics.config.problems import InvalidFileError

FIELDS = frozenset({"accelerator", "framework", "hosts", "image", "mode", "model"})
"""Keys of a test that a sweep can set. Any other key becomes a parameter and an environment variable."""
IN_NAME = frozenset({"accelerator", "framework", "mode", "model"})
MAX_TESTS = 500


def swept(document: Document) -> list[Document]:
    """Return the documents of the tests. In each, `sweep` has one value for each key."""
    sweep = document.content.get("sweep")
    if not sweep:
        return [document]
    _check(sweep, document)
    keys = sorted(sweep)
    return [_one(document, dict(zip(keys, values, strict=True))) for values in product(*(sweep[key] for key in keys))]


def _one(document: Document, values: dict[str, Any]) -> Document:
    content = {**document.content, "sweep": values}
    for key, value in values.items():
        if key in FIELDS:
            content[key] = value
        else:
            content["params"] = _with_default(content.get("params", {}), key, value)
            content["env"] = _with_variable(content.get("env", {}), key)
    name = _name(content, values)
    if name:
        content["name"] = name
    return Document(document.file, content, document.places, document.warnings)


def _with_default(params: Any, key: str, value: Any) -> Any:
    """Return the parameters with this value as the default; other keys of the parameter stay."""
    if not isinstance(params, dict):
        return params  # reported when parameters are validated
    declared = params.get(key)
    described = declared if isinstance(declared, dict) and "default" in declared else {}
    return {**params, key: {**described, "default": value}}


def _with_variable(env: Any, key: str) -> Any:
    """Return the variables with one that follows the parameter, also when a run is triggered by hand."""
    return {key.upper(): f"{{{{ params.{key} }}}}", **env} if isinstance(env, dict) else env


def _name(content: dict[str, Any], values: dict[str, Any]) -> str:
    """Return the given name, or the one made from its parts, followed by the values; empty if a part is missing."""
    given = content.get("name")
    parts = [given] if given else [*(content.get(key) for key in ("framework", "model", "mode")), _accelerator(content)]
    if not all(isinstance(part, str) and part for part in parts):
        return ""
    suffixes = [f"{as_name(key)}-{_text(value)}" for key, value in values.items() if given or key not in IN_NAME]
    return "-".join([*map(str, parts), *suffixes])


def _accelerator(content: dict[str, Any]) -> str:
    try:
        return accelerator(content.get("accelerator", "cpu")).name
    except ValueError:
        return as_name(str(content["accelerator"]))  # reported when the accelerator is validated


def _text(value: Any) -> str:
    """Return a value as part of a name."""
    if isinstance(value, dict):
        return _accelerator({"accelerator": value})
    return as_name(re.sub(r"^-", "minus-", str(value)))


def _check(sweep: Any, document: Document) -> None:
    problems = []

    def wrong(what: str, *where: str | int) -> None:
        problems.append(document.problem(("sweep", *where), what))

    if not isinstance(sweep, dict):
        wrong("should be a mapping of names to lists of values")
    else:
        size = prod(len(values) for values in sweep.values() if isinstance(values, list))
        for key, values in sweep.items():
            if not isinstance(values, list) or not values:
                wrong("should be a list of values", key)
                continue
            texts = [_text(value) for value in values] if size <= MAX_TESTS else []
            for position, text in enumerate(texts):
                if text in texts[:position]:
                    wrong(f"{values[position]!r} would give two tests the same name", key, position)
            if not key.isidentifier():
                wrong(
                    "the name of a parameter must consist of letters, digits and '_', and not begin with a digit", key
                )
        if size > MAX_TESTS:
            wrong(f"makes {size} tests; at most {MAX_TESTS} are allowed")
    if problems:
        raise InvalidFileError(problems)
