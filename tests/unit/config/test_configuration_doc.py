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


IN_WORDS = {
    "Keys of a test": "Resources SecretKey Cluster Quarantine",
    "`params`": "Parameter",
    "`on_regression`": "OnRegression OwnSearch",
    "`goodput`": "CloudLog GCPOptions",
    "`efficiency`": "ModelFlops Transformer MixtureOfExperts",
    "`metric_collection_config`": "Steps TagAggregation Expression TimeToAccuracy",
    "What is known about a metric": "MetricFacts",
    "`sources`": "Source PerfZero Devices",
    "`sources.json_lines`": "Csv",
    "`sources.documents`": "DocumentMetric",
    "`sources.logs`": "LogProfile",
    "`sources.curves`": "CurveY ValueOfCurve AreaOfCurve Objective",
    "`regression_test_config`": "Rerun",
    "A condition": "Baseline OtherRuns MinChange Confirm Near",
    "`success_threshold`": "ChangePoint WithinBounds PercentDifference",
    "A curve": "SweepCondition",
}
"""The models without a table, by the section that names their keys."""


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
    assert (model, key) in LINES, f"{EXAMPLE_FILE.name} has no example of {key} in {model}"
    begin = LINES[model, key]
    following = sorted(line for where, line in LINES.items() if len(where) <= 2 and line > begin)
    part = lines[begin - 1 : following[0] - 1] if following else lines[begin - 1 :]
    return "<br>".join(f"`{line.removeprefix('  ')}`" for line in part if line.strip()).replace("|", "\\|")


def table(name: str, without: str, headings: set[str]) -> str:
    """The keys of a model, each as its example gives it. A key with a heading of its own is a link to it."""
    model = MODELS[name]
    texts = docstrings(model)
    names = {id(field): field_name for field_name, field in model.model_fields.items()}
    rows = ["| key | meaning |", "| --- | --- |"]
    for key, field in keys_of(model).items():
        if key in without.split(", "):
            continue
        text, usual = texts[names[id(field)]], default(field)
        if "Default: " not in text and usual not in {"none", "see below", "`false`"}:
            text += " Required." if usual == "required" else f" Default: {usual}."
        example = source(name, key)
        rows.append(f"| {f'[{example}](#{key})' if f'`{key}`' in headings else example} | {text} |")
    return "\n".join(rows)


def accelerators() -> str:
    """The catalogue by its nodes. Sizes that double are shown as `t4`, `t4x2`, ... `t4x8`."""
    rows = ["| nodes | accelerators |", "| --- | --- |"]
    chips: dict[str, list[str]] = {}
    for made in catalogue().values():
        selector = next((value for key, value in made.node_selector.items() if "topology" not in key), made.chip)
        chips.setdefault(selector, []).append(made.name)
    for selector, family in chips.items():
        rows.append(f"| `{selector}` | {', '.join(doublings(family))} |".replace("..., ", "... "))
    return "\n".join(rows)


def doublings(names: list[str]) -> list[str]:
    sizes = [int(found[1]) if (found := re.search(r"[x-](\d+)$", name)) else 1 for name in names]
    shown: list[str] = []
    for index, name in enumerate(names):
        doubles = [sizes[at] == 2 * sizes[at - 1] for at in (index - 1, index, index + 1) if 0 < at < len(names)]
        if len(doubles) == 3 and all(doubles):
            shown += [] if shown[-1] == "..." else ["..."]
        else:
            shown.append(f"`{name}`")
    return shown


def test_the_page_matches_the_models() -> None:
    text = DOC.read_text(encoding="utf-8")
    headings = set(re.findall(r"^##+ (.*)$", text, re.MULTILINE))
    fill = re.compile(
        r"<!-- (keys: (?P<model>\w+)(?: without (?P<without>[\w, ]+?))?|accelerators) -->\n\n?(?:\|.*\n)*"
    )
    assert set(sections(text)) == set(MODELS)

    def filled(found: re.Match[str]) -> str:
        content = table(found["model"], found["without"] or "", headings) if found["model"] else accelerators()
        return f"<!-- {found[1]} -->\n\n{content}\n"

    check(str(DOC), fill.sub(filled, text))


def sections(text: str) -> dict[str, str]:
    """The section of each model: it has a table of its keys, or names them."""
    return {
        name: section
        for section in re.split(r"^(?=##+ )", text, flags=re.MULTILINE)
        for name in re.findall(r"<!-- keys: (\w+)", section)
        + IN_WORDS.get(section[: section.find("\n")].strip("# "), "").split()
    }


def test_a_section_names_each_key() -> None:
    found = sections(re.sub(r"^```.*?^```", "", DOC.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL))
    code = {name: set(re.findall(r"\w+", " ".join(re.findall(r"`[^`]+`", found[name])))) for name in found}
    source = set(keys_of(MODELS["Source"]))
    keys = {name: set(keys_of(model)) - (source if name != "Source" else set()) for name, model in MODELS.items()}
    lacking = {name: absent for name in found if (absent := keys[name] - code[name])}
    assert lacking == {}, "give each an example; then UPDATE_GOLDEN=1 writes the tables of docs/configuration.md"


def test_the_page_of_conditions_explains_each_threshold() -> None:
    text = DOC.with_name("conditions.md").read_text(encoding="utf-8")
    assert [key for key in keys_of(MODELS["SuccessThreshold"]) if f"`{key}" not in text] == [], "a row of its bounds"


@pytest.mark.parametrize("name", MODELS)
def test_every_key_has_a_valid_example(name: str) -> None:
    keys = keys_of(MODELS[name])
    assert list(EXAMPLES[name]) == list(keys), f"{EXAMPLE_FILE.name}: an example for each key, in the models' order"
    for key, field in keys.items():
        kind: Any = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
        TypeAdapter(kind).validate_python(EXAMPLES[name][key])
