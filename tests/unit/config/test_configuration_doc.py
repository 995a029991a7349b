"""docs/configuration.md lists every key, with its default and a valid example."""

from __future__ import annotations

import importlib
import inspect
import re
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from pydantic import BaseModel, TypeAdapter
from pydantic_core import PydanticUndefined

from docstrings import docstrings
from golden import check
from ml_metrics.config.accelerators import Accelerator, catalogue
from ml_metrics.config.validation import spellings
from ml_metrics.config.yaml import parse_yaml

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

DOC = Path(__file__).parents[3] / "docs" / "configuration.md"
EXAMPLE_FILE = Path(__file__).with_name("configuration_examples.yaml")
EXAMPLES, LINES, _ = parse_yaml(EXAMPLE_FILE.read_text(encoding="utf-8"), EXAMPLE_FILE.name)
MODULES = ("collection", "conditions", "definition", "params", "pod")
MODELS = {
    name: model
    for module in MODULES
    for name, model in vars(importlib.import_module(f"ml_metrics.config.{module}")).items()
    if inspect.isclass(model) and issubclass(model, BaseModel) and name not in {"OneOf", "Size", "Strict"}
}


def keys_of(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """The keys, each in one spelling."""
    found: dict[int, tuple[str, FieldInfo]] = {}
    for key, field in spellings(model).items():
        found.setdefault(id(field), (key, field))
    return dict(found.values())


def default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    assert value is not PydanticUndefined
    return shown(value)


def shown(value: Any) -> str:
    if value is None or value in ("", (), {}) or isinstance(value, BaseModel):
        return "none" if not isinstance(value, BaseModel) else "see below"
    if isinstance(value, timedelta):
        minutes = int(value.total_seconds() // 60)
        return f"`{minutes // 60}h`" if minutes % 60 == 0 else f"`{minutes}m`"
    if isinstance(value, Enum | Accelerator | str):
        return f"`{value}`"
    if isinstance(value, tuple):
        return f"`[{', '.join(map(str, value))}]`"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def source(model: str, key: str) -> str:
    """The example as written in the file, on one line."""
    lines = EXAMPLE_FILE.read_text(encoding="utf-8").splitlines()
    begin = LINES[model, key]
    following = sorted(line for where, line in LINES.items() if len(where) <= 2 and line > begin)
    part = lines[begin - 1 : following[0] - 1] if following else lines[begin - 1 :]
    return "<br>".join(f"`{line.removeprefix('  ')}`" for line in part if line.strip()).replace("|", "\\|")


def table(name: str) -> str:
    """The keys of a model; those of a model that it extends have a table of their own."""
    model = MODELS[name]
    texts = docstrings(model)
    names = {id(field): field_name for field_name, field in model.model_fields.items()}
    base = MODELS.get(model.__bases__[0].__name__)
    rows = ["| key | meaning | example |", "| --- | --- | --- |"]
    for key, field in keys_of(model).items():
        if base and key in keys_of(base):
            continue
        text, usual = texts[names[id(field)]], default(field)
        if "Default: " not in text and usual not in {"none", "see below"}:
            text += " Required." if usual == "required" else f" Default: {usual}."
        rows.append(f"| `{key}` | {text} | {source(name, key)} |")
    return "\n".join(rows)


def accelerators() -> str:
    """The catalogue by its chips; a slice has its pods and its topology beside its name."""
    rows = ["| nodes | accelerators | a pod requests |", "| --- | --- | --- |"]
    chips: dict[str, list[Accelerator]] = {}
    for made in catalogue().values():
        selector = next((value for key, value in made.node_selector.items() if "topology" not in key), made.chip)
        chips.setdefault(selector, []).append(made)
    for selector, family in chips.items():
        shapes = [
            f"`{made.name}` ({made.hosts}, {made.topology})" if made.topology else f"`{made.name}`" for made in family
        ]
        requests = sorted({made.per_host for made in family if made.resource})
        resource = f"`{family[-1].resource}`: {', '.join(map(str, requests))}" if requests else "nothing"
        rows.append(f"| `{selector}` | {', '.join(shapes)} | {resource} |")
    return "\n".join(rows)


def test_the_page_matches_the_models() -> None:
    text = DOC.read_text(encoding="utf-8")
    fill = re.compile(r"<!-- (keys: (?P<model>\w+)|accelerators) -->\n.*?<!-- end -->", re.DOTALL)
    assert {found["model"] for found in fill.finditer(text)} == {*MODELS, None}

    def filled(found: re.Match[str]) -> str:
        content = table(found["model"]) if found["model"] else accelerators()
        return f"<!-- {found[1]} -->\n\n{content}\n\n<!-- end -->"

    check(str(DOC), fill.sub(filled, text))


@pytest.mark.parametrize("name", MODELS)
def test_every_key_has_a_valid_example(name: str) -> None:
    keys = keys_of(MODELS[name])
    assert list(EXAMPLES[name]) == list(keys), "an example for each key, in the models' order"
    for key, field in keys.items():
        kind: Any = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
        TypeAdapter(kind).validate_python(EXAMPLES[name][key])
