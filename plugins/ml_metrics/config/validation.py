"""Validation errors of pydantic as problems of a config file, with suggestions."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

from pydantic import AliasChoices, BaseModel

from ml_metrics.config.document import Document
from ml_metrics.config.problems import InvalidFileError, Problem, Where
from ml_metrics.core.text import counted, did_you_mean, shortened
from ml_metrics.core.units import write_instead

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic.fields import FieldInfo
    from pydantic_core import ErrorDetails


MAX_TEXT = 128 << 10
"""Bytes of one text. Linux starts no program with a longer argument or variable."""
MAX_ENTRIES = 2_000
"""Entries of one list or mapping."""
MAX_TOTAL = 250_000
"""Values and lines of text in all tests of one file: what 500 tests with 500 values each have."""
LINE_BITS = 6
"""A text counts as one value for each 64 of its characters: Airflow stores all of them for each test."""
MAX_BITS = 64
SHOWN = 100
"""How many mistakes of a file are described. Each is a few lookups, and nobody reads more."""


def check_contents(document: Document) -> int:
    """The number of its values, and of the lines of its texts. Raises InvalidFileError."""
    problems: list[Problem] = []
    size = 0
    stack: list[tuple[Where, Any]] = [((), document.content)]
    while stack and len(problems) < SHOWN:
        where, value = stack.pop()
        size += 1
        if isinstance(value, str):
            size += len(value) >> LINE_BITS
        if what := _wrong(value):  # what is in a list of too many entries is not looked at
            problems.append(document.problem(where, what))
        elif isinstance(value, list):
            stack += [((*where, position), inner) for position, inner in enumerate(value)]
        elif isinstance(value, dict):
            stack += [((*where, key), inner) for key, inner in value.items()]
        if size > MAX_TOTAL:
            problems.append(document.problem((), f"has more than {MAX_TOTAL:,} values or lines of text"))
            break
    if problems:
        raise InvalidFileError(problems)
    return size


def check_total(size: int, tests: int, document: Document) -> None:
    if size * tests > MAX_TOTAL:
        what = f"makes {tests} tests of {size:,} values or lines of text each, at most {MAX_TOTAL:,} in all"
        raise InvalidFileError([document.problem(("sweep",), what)])


def _wrong(value: Any) -> str:
    """Without what the value contains; empty if it is usable for a database, a cluster and a page."""
    if isinstance(value, str):
        if len(value) > MAX_TEXT:
            return f"has {len(value):,} characters, at most {MAX_TEXT:,} are allowed"
        if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
            return "is not valid text: it contains a lone surrogate"
        return "contains the character NUL, which no database stores" if "\0" in value else ""
    if isinstance(value, int):
        return "is a number with too many digits" if value.bit_length() > MAX_BITS else ""
    if not isinstance(value, dict | list):
        return ""
    if len(value) > MAX_ENTRIES:
        return f"has {len(value):,} entries, at most {MAX_ENTRIES:,} are allowed"
    return next((f"a key {what}" for key in value if isinstance(value, dict) and (what := _wrong(key))), "")


EXPECTED = {
    kind: text
    for text, kinds in {
        "should be text in quotes": "string_type",
        "should be true or false": "bool_type bool_parsing",
        "should be a whole number": "int_type int_parsing int_from_float",
        "should be a number": "float_type float_parsing",
        "should be a finite number": "finite_number",
        "should be a list, in [ ] or with a '-' before each item": "tuple_type list_type",
        "should be a mapping of keys to values": "dict_type model_type",
        "should not be empty": "too_short string_too_short",
        "should be a day like 2026-05-31": "date_type date_parsing date_from_datetime_parsing",
        "should be a time like 2026-05-31T12:00:00Z": "datetime_type datetime_parsing datetime_from_date_parsing",
    }.items()
    for kind in kinds.split()
}


BOOLEAN_WORDS = {
    **dict.fromkeys(("yes", "y", "on", "t", "1", "1.0"), "true"),
    **dict.fromkeys(("no", "n", "off", "f", "0", "0.0"), "false"),
}
"""What other formats, such as YAML 1.1, read as booleans. Here they are text and numbers."""


def problems_of(error: ValidationError, document: Document, model: type[BaseModel]) -> list[Problem]:
    """One for each invalid place in the document."""
    found: dict[Where, Problem] = {}
    decided: set[Where] = set()
    errors = error.errors(include_url=False)
    for details in errors[:SHOWN]:
        where = _in_document(details, document)
        what = _what(details, where, model)
        if details["type"] == "value_error":
            if where not in decided:
                found.pop(where, None)
            decided.add(where)
        elif where in decided:  # the type of another member of a union, beside the error of the fitting one
            continue
        earlier = found.get(where)
        if earlier is not None and what not in earlier.what:  # another member of a union
            what = f"{earlier.what}, or {what}"
        found[where] = document.problem(where, what)
    for where in list(found):  # errors of a list or mapping that only follow from errors within it
        if any(other[: len(where)] == where and len(other) > len(where) for other in found):
            del found[where]
    problems = sorted(found.values(), key=lambda problem: (problem.file, problem.line or 0))
    if len(errors) > SHOWN:
        problems.append(document.problem((), f"has {counted(len(errors) - SHOWN, 'more mistake')}"))
    return problems


def annotation_at(model: type[BaseModel], where: Where) -> Any:
    """None if the model has no such place."""
    return next(iter(_annotations_at(model, where)), None)


def _annotations_at(model: type[BaseModel], where: Where) -> list[Any]:
    candidates: list[Any] = [model]
    for key in where:
        candidates = [inner for candidate in candidates for inner in _step(candidate, key)]
    return candidates


def spellings(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Every key that a model accepts, with its field."""
    found: dict[str, FieldInfo] = {}
    for name, field in model.model_fields.items():
        alias = field.validation_alias or field.alias
        names = [str(choice) for choice in alias.choices] if isinstance(alias, AliasChoices) else [str(alias or name)]
        found |= dict.fromkeys(names, field)
    return found


def _step(annotation: Any, key: str | int) -> Iterator[Any]:
    if _is_model(annotation):
        field = spellings(annotation).get(str(key))
        if field is not None:
            yield from _members(field.annotation)
    elif get_origin(annotation) is dict:
        yield from _members(get_args(annotation)[1])
    elif get_origin(annotation) in {tuple, list}:
        yield from _members(get_args(annotation)[0])


def _members(annotation: Any) -> Iterator[Any]:
    """Yield a type, or the members of a union, without annotations."""
    while hasattr(annotation, "__metadata__"):
        annotation = annotation.__origin__
    if get_origin(annotation) in {Union, types.UnionType}:
        for member in get_args(annotation):
            yield from _members(member)
    else:
        yield annotation


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _in_document(details: ErrorDetails, document: Document) -> Where:
    """Without names of union members and validators, which the document lacks."""
    value: Any = document.content
    where: Where = ()
    location = details["loc"]
    for position, key in enumerate(location):
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            last = position == len(location) - 1
            named = "[" not in str(key)  # not `[key]`, and not a validator: `function-after[check(), Steps]`
            if last and named and details["type"] in {"missing", "value_error"} and isinstance(value, dict):
                where = (*where, key)
            continue
        where = (*where, key)
    return where


def _what(details: ErrorDetails, where: Where, model: type[BaseModel]) -> str:
    kind, context, value = details["type"], details.get("ctx", {}), details["input"]
    if kind == "extra_forbidden":
        valid = [name for one in _annotations_at(model, where[:-1]) if _is_model(one) for name in spellings(one)]
        if value is None and str(where[-1])[:3].isdigit():
            return "is read as a key, because a comma ends the value before it: write that number without commas"
        meant = OTHER_WORDS.get(str(where[-1]), "")
        near = f"; did you mean {meant!r}?" if meant in valid else ""
        near = near or _in_a_section(model, where) or did_you_mean(str(where[-1]), valid)
        few = f"; valid keys: {', '.join(valid)}" if 0 < len(valid) <= 12 else "; see docs/configuration.md"
        return f"unknown key{near or few}"
    if kind == "missing":
        return "is required"
    if value is None:
        return "has no value; give one, or remove the key"
    if kind == "value_error":
        return str(context["error"])
    if kind in {"enum", "literal_error"}:
        allowed = [word.strip().strip("'") for word in str(context["expected"]).replace(" or ", ", ").split(",")]
        meant = OTHER_WORDS.get(str(value), "")
        near = f"; did you mean {meant!r}?" if meant in allowed else did_you_mean(str(value), allowed)
        return f"{value!r} is not one of {', '.join(allowed)}{near}"
    if kind in EXPECTED:
        if kind.startswith(("too_", "string_too")):
            return EXPECTED[kind]
        return f"{EXPECTED[kind]}, not {_short(value)}{_instead(kind, value)}"
    return f"{details['msg'].removeprefix('Input ')}, not {_short(value)}"


OTHER_WORDS = {
    **dict.fromkeys(("lower", "smaller", "below", "max"), "less"),
    **dict.fromkeys(("higher", "larger", "above", "min"), "greater"),
    **dict.fromkeys(
        ("gpu", "gpus", "gpu_type", "tpu", "tpus", "chips", "device", "devices", "hardware"), "accelerator"
    ),
    **dict.fromkeys(("container", "docker_image"), "image"),
    **dict.fromkeys(("cron", "schedule_interval"), "schedule"),
}
"""What other programs call a key or a word, and its name here."""


def _in_a_section(model: type[BaseModel], where: Where) -> str:
    """`; did you mean 'goodput.enabled'?` for a key of a section at the top level."""
    key = str(where[-1])
    for section, field in spellings(model).items() if len(where) == 1 else ():
        if any(key in spellings(member) for member in _members(field.annotation) if _is_model(member)):
            return f"; did you mean {f'{section}.{key}'!r}?"
    return ""


def _instead(kind: str, value: Any) -> str:
    """What to write instead of a value of another type, if that is clear."""
    if kind == "string_type" and isinstance(value, int | float):
        return f": write {json.dumps(json.dumps(value))}"
    if kind == "bool_type" and str(value).lower() in BOOLEAN_WORDS:
        return f": write {BOOLEAN_WORDS[str(value).lower()]}"
    if kind in {"int_type", "float_type"}:
        return write_instead(value, whole=kind == "int_type")
    return ""


def _short(value: Any) -> str:
    return shortened(json.dumps(value) if isinstance(value, bool) else repr(value))
