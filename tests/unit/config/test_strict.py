"""No value is guessed: each key of each model rejects every JSON type but its own, with file, line, key and remedy."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest
from pydantic import BaseModel, BeforeValidator

from ml_metrics import TestDefinition
from ml_metrics.config.accelerators import Accelerator
from ml_metrics.config.loading import load_file
from ml_metrics.config.params import Parameter
from ml_metrics.config.pod import SecretKey, as_text
from ml_metrics.config.problems import InvalidFileError, dotted
from ml_metrics.config.validation import spellings

BASE = {"framework": "tf", "model": "mnist", "mode": "func", "image": "i:1", "command": ["x"]}
Where = tuple[str | int, ...]
SAMPLES: dict[str, list[Any]] = {
    "true or false": [True, False],
    "number": [3, 2.5],
    "numeric text": ["0.96", "3", "1767225600"],
    "boolean in quotes": ["True", "false"],
    "text": ["yes", "off", "none", "NaN"],
    "list": [[], [1]],
    "mapping": [{}, {"a": 1}],
}
TEXT = {"numeric text", "boolean in quotes", "text"}
SCALARS = TEXT | {"true or false", "number"}
OF_TYPES: dict[Any, set[str]] = {
    str: TEXT,
    float: {"number"},
    int: {"number"},
    bool: {"true or false", "boolean in quotes"},
    timedelta: {"number", "text"},
    date: {"text"},
    datetime: {"text"},
    Accelerator: TEXT | {"mapping"},
    SecretKey: TEXT | {"mapping"},
    Parameter: set(SAMPLES),
    Any: set(SAMPLES),
}
"""Which samples a type may accept. Whether it accepts each of them depends on more than the type."""
SHORT_FORMS = {
    "compare_to": TEXT,
    "confirm": {"number"},
    "literals": {"list"},
    "rerun": {"true or false"},
    "sweep": {"mapping"},
}


def fields(model: type[BaseModel], where: Where = ()) -> Iterator[tuple[Where, set[str]]]:
    """Each place of a model, and the samples that may be accepted there."""
    for key, field in spellings(model).items():
        short = SHORT_FORMS.get(key, set())
        for place, accepted in places(field.annotation, (*where, key), field.metadata):
            yield place, accepted | (short if place == (*where, key) else set())


def places(
    annotation: Any, where: Where, metadata: tuple[Any, ...] | list[Any] = ()
) -> Iterator[tuple[Where, set[str]]]:
    members = list(members_of(annotation, metadata))
    yield where, set().union(*(accepted_by(member, extra) for member, extra in members))
    for member, _ in members:
        if isinstance(member, type) and issubclass(member, BaseModel):
            if member not in {Parameter, SecretKey} or where[-1] == "m":
                yield from fields(member, where)
        elif get_origin(member) is dict:
            yield from places(get_args(member)[1], (*where, "m"))
        elif get_origin(member) is tuple:
            yield from places(get_args(member)[0], (*where, 0))


def members_of(annotation: Any, metadata: Any = ()) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    if get_origin(annotation) is Annotated:
        inner, *extra = get_args(annotation)
        yield from members_of(inner, (*metadata, *extra))
    elif get_origin(annotation) in {Union, types.UnionType}:
        for member in get_args(annotation):
            yield from members_of(member, metadata)
    else:
        yield annotation, tuple(metadata)


def accepted_by(member: Any, metadata: tuple[Any, ...]) -> set[str]:
    if any(isinstance(each, BeforeValidator) and each.func is as_text for each in metadata):
        return SCALARS
    if member in OF_TYPES:
        return OF_TYPES[member]
    if get_origin(member) in {dict, tuple}:
        return {"mapping" if get_origin(member) is dict else "list"}
    if get_origin(member) is Literal or (isinstance(member, type) and issubclass(member, Enum)):
        return {"text"}
    return {"mapping"} if isinstance(member, type) and issubclass(member, BaseModel) else set()


def content_with(where: Where, value: Any) -> dict[str, Any]:
    """A test with a value in one place."""
    for key in reversed(where):
        value = [value] if isinstance(key, int) else {key: value}
    if where[:2] == ("params", "m") and len(where) > 2:
        value["params"]["m"].setdefault("default", None)
    return {**BASE, **value}


PLACES = {dotted(where): (where, accepted) for where, accepted in fields(TestDefinition)}
REJECTED_ELSEWHERE = {"metric_config", "extends", "sweep", "sweep.m"}
"""Keys of files that are not parsed by a model."""


def test_every_room_of_the_config_is_visited() -> None:
    known = {
        "params.m.enum[0]",
        "quarantine.until",
        "volumes.m.read_only",
        "goodput.rolling_windows[0]",
        "metric_collection_config.sources.json_lines.files[0]",
        "metric_collection_config.time_to_accuracy.accuracy_threshold",
        "regression_test_config.metric_success_conditions.m.success_threshold.percent_difference.value",
        "regression_test_config.metric_success_conditions.m.confirm.within.percent",
    }
    assert known <= PLACES.keys()
    assert len(PLACES) > 150


@pytest.mark.parametrize("key", sorted(PLACES.keys() - REJECTED_ELSEWHERE))
def test_a_value_of_another_type_is_refused_where_it_stands(key: str, tmp_path: Path) -> None:
    where, accepted = PLACES[key]
    path = tmp_path / "t.json"
    for kind in SAMPLES.keys() - accepted:
        for value in SAMPLES[kind]:
            path.write_text(json.dumps(content_with(where, value), indent=1), encoding="utf-8")
            with pytest.raises(InvalidFileError) as caught:
                load_file(path, root=tmp_path)
            found = [problem for problem in caught.value.problems if problem.path.startswith(key)]
            assert found, (value, str(caught.value))
            assert found[0].line is not None
            assert found[0].what


BOUND = (
    "regression_test_config: {metric_success_conditions: {m: {comparison: less, success_threshold: {fixed_value: %s}}}}"
)
NUMBERS = [
    ("1_000", "1_000", ": write 1000"),
    ("-1_000.5", "-1_000.5", ": write -1000.5"),
    ("'1000'", "1000", ": write 1000 without quotes"),
    ("'1e3'", "1e3", ": write 1000"),
    ("'.5'", ".5", ": write 0.5"),
    ("'1,000,000.5'", "1,000,000.5", ": write 1000000.5"),
    ("1 000", "1 000", ": write 1000"),
    ("1:30", "1:30", ": write 90"),
    ("-1:00:00.5", "-1:00:00.5", ": write -3600.5"),
    ("0b11", "0b11", ": write 3"),
    ("-0X1F", "-0X1F", ": write -31"),
    ("\u0661\u0662", "\u0661\u0662", ": write 12"),
]
INSTEAD = [
    ("retries: '3'", "retries: should be a whole number, not '3': write 3 without quotes"),
    ("retries: true", "retries: should be a whole number, not true"),
    ("retries: 2.5", "retries: should be a whole number, not 2.5"),
    ("retries: 1_0", "retries: should be a whole number, not '1_0': write 10"),
    ("retries: '2.5'", "retries: should be a whole number, not '2.5'"),
    *((BOUND % text, f"fixed_value: should be a number, not '{shown}'{instead}") for text, shown, instead in NUMBERS),
    (BOUND % "1,000", "threshold.000: is read as a key, because a comma ends the value before it: write that number"),
    ("name: 12", 'name: should be text in quotes, not 12: write "12"'),
    ("goodput: {enabled: yes}", "goodput.enabled: should be true or false, not 'yes': write true"),
    ("goodput: {enabled: 0}", "goodput.enabled: should be true or false, not 0: write false"),
    (
        "quarantine: {until: 1767225600, reason: r}",
        "should be a day like 2026-05-31, not 1767225600; did you mean 2026-01-01",
    ),
]


@pytest.mark.parametrize(("line", "message"), INSTEAD)
def test_the_problem_states_what_to_write_instead(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(f"{json.dumps(BASE)[:-1]},\n{line.replace(': ', ': ', 1)}}}\n", encoding="utf-8")
    with pytest.raises(InvalidFileError) as caught:
        load_file(path)
    assert message in str(caught.value)
    assert "t.yaml:2: " in str(caught.value)


@pytest.mark.parametrize("text", ["'1,5'", "1e", "'1e400'", "'nan'", "10%", "'9007199254740993'", "one", "1:75", "0x"])
def test_a_text_that_means_no_number_for_sure_gets_no_advice(text: str, tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(f"{json.dumps(BASE)[:-1]},\n{BOUND % text}}}\n", encoding="utf-8")
    with pytest.raises(InvalidFileError, match="fixed_value: should be a number, not ") as caught:
        load_file(path)
    assert "write" not in str(caught.value)


def test_numbers_without_a_fraction_are_whole_and_booleans_in_quotes_are_read_with_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps({**BASE, "retries": 2.0, "goodput": {"enabled": "False"}}), encoding="utf-8")
    loaded = load_file(path)
    assert (loaded.tests[0].retries, loaded.tests[0].goodput.enabled) == (2, False)
    assert "the text 'False' is read as a boolean" in loaded.warnings[0]


@pytest.mark.parametrize("number", [10**400, -(10**400), 1e308])
def test_huge_numbers_are_problems_of_the_file(number: float, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    threshold = {"m": {"success_threshold": {"stddevs_from_mean": number}}}
    content = {"timeout": number, "regression_test_config": {"metric_success_conditions": threshold}}
    path.write_text(json.dumps({**BASE, **content}), encoding="utf-8")
    with pytest.raises(InvalidFileError) as caught:
        load_file(path)
    assert len(caught.value.problems) == (1 if isinstance(number, float) else 2)


PARAMETERS = [
    ("{type: integer, minimum: 1}", "has no `default`"),
    ("{default: true, enum: [1, 2]}", r"the default True is not one of \[1, 2\]"),
    ("{default: 1, minimum: 3, maximum: 2}", r"minimum \(3\) is above maximum \(2\)"),
    ("{default: .nan}", "the default nan is not a finite number"),
    ("[1, .inf]", "is not a finite number"),
    ("{default: '3', type: integer}", "the default '3' is not of type 'integer'"),
    ("{default: true, type: number}", "the default True is not of type 'number'"),
]


@pytest.mark.parametrize(("parameter", "message"), PARAMETERS)
def test_parameters_that_no_run_could_use_are_refused(parameter: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(f"{json.dumps(BASE)[:-1]}, params: {{epochs: {parameter}}}}}", encoding="utf-8")
    with pytest.raises(InvalidFileError, match=message):
        load_file(path)
