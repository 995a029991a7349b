"""`params`: what users can change when they trigger a run."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from ml_metrics.config.naming import is_address
from ml_metrics.config.patterns import check_expression, found_in
from ml_metrics.config.strict import Strict, matching
from ml_metrics.core.errors import ConfigError
from ml_metrics.core.text import did_you_mean

TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
MAX_SHOWN = 60
MAX_MATCHED = 10_000
"""The characters of a text with a pattern: also in linear time, 128 KiB take seconds."""

_OVERRIDES: dict[str, dict[str, Any]] = {
    "image": {"type": ["null", "string"], "description": "Another container image; empty for the test's own"},
    "command": {
        "type": ["null", "array"],
        "items": {"type": "string"},
        "description": "Another program and its arguments, one a line; empty for the test's own",
    },
    "trial": {
        "type": ["null", "string"],
        "pattern": "^(yes|no)?$",
        "examples": ["yes", "no"],
        "description": "Whether the run is a trial, which counts in no history: yes or no; empty: if anything differs",
    },
    "notify": {
        "type": ["null", "string"],
        "pattern": r"^[\s,;]*([^@\s,;]+@[^@\s,;]+([\s,;]+|$))*$",
        "description": "Mail addresses that the verdict of a trial goes to; empty for the user who starts it",
    },
}
RUN_OVERRIDES = {name: {**schema, "section": "For this run only"} for name, schema in _OVERRIDES.items()}
"""What can be stated for a single run beside the parameters of its test, with JSON Schema for the trigger form."""
PROGRAM = ("image", "command")
"""The overrides with which a run executes something else. Only a test file or the setting `by_hand` allows them."""


NOT_COMPILED = matching("(?s)(?!regex$).*", "a format for a parameter: it would compile what a user enters")


class Parameter(Strict):
    """A field of the trigger form. All keys but `default` are keywords of JSON Schema."""

    default: Any = None
    """The value for runs that are not triggered with another."""
    type: str | tuple[str, ...] | None = None
    """`string`, `integer`, `number`, `boolean`, `object`, `array`, `null`, or a list of those."""
    title: str | None = None
    """The label in the form."""
    description: str | None = None
    """The help text in the form."""
    enum: tuple[Any, ...] | None = None
    """The allowed values."""
    minimum: float | None = None
    """The smallest allowed number."""
    maximum: float | None = None
    """The greatest allowed number."""
    min_length: int | None = Field(None, ge=0, alias="minLength")
    """The minimum length of a text."""
    max_length: int | None = Field(None, ge=0, alias="maxLength")
    """The maximum length of a text."""
    pattern: str | None = None
    """A regular expression that a text must match."""
    format: Annotated[str, NOT_COMPILED] | None = None
    """How the form shows it: `date`, `date-time`, `multiline`, ..."""
    examples: tuple[Any, ...] | None = None
    """Values that the form suggests."""
    section: str | None = None
    """The section of the form."""

    @model_validator(mode="after")
    def default_fits(self) -> Self:  # noqa: C901  (one check after the other)
        """Reject a default that violates its own schema: every scheduled run would fail."""
        for name in (self.type,) if isinstance(self.type, str) else self.type or ():
            if name not in TYPES:
                raise ValueError(f"{name!r} is not a type; available: {', '.join(TYPES)}{did_you_mean(name, TYPES)}")
        if not _is_finite(self.default):
            raise ValueError(f"the default {self.default!r} is not a finite number")
        if not all(map(_is_finite, (*(self.enum or ()), *(self.examples or ())))):
            raise ValueError("enum and examples must consist of finite numbers")
        if self.minimum is not None and self.maximum is not None and self.minimum > self.maximum:
            raise ValueError(f"minimum ({self.minimum:g}) is above maximum ({self.maximum:g})")
        if self.pattern is not None:
            try:
                check_expression(self.pattern)
            except ValueError as error:
                raise ValueError(f"the pattern {self.pattern!r} is invalid: {error}") from error
        kept = {"default", "title", "description", "pattern", "examples", "section"}
        if schema := self.model_dump(mode="json", exclude=kept, exclude_none=True, by_alias=True):
            from jsonschema import Draft202012Validator, FormatChecker  # Airflow has it; most test files need none

            validator = Draft202012Validator(schema, format_checker=FormatChecker())
            for wrong in validator.iter_errors(self.default):
                raise ValueError(f"the default {wrong.message[:200]}")
        if what := self.wrong(self.default):
            raise ValueError(f"the default {what}")
        return self

    def wrong(self, value: Any) -> str:
        """By `pattern`, which Airflow does not check; empty if the text fits."""
        if self.pattern is None or not isinstance(value, str):
            return ""
        if len(value) > MAX_MATCHED:
            return f"{value[:MAX_SHOWN]!r}... has {len(value):,} characters, with a pattern at most {MAX_MATCHED:,}"
        if found_in(self.pattern, value):
            return ""
        return f"{value[:MAX_SHOWN]!r} does not match the pattern {self.pattern!r}"

    def schema_keywords(self) -> dict[str, Any]:
        """Return the keys for `airflow.sdk.Param`: all that are given, without the default and the pattern.

        Airflow matches a pattern with Python's `re`, also in the API server, where some patterns take hours for one
        short text. The run checks the pattern when it starts.
        """
        given = self.model_dump(exclude={"default", "pattern"}, exclude_none=True, by_alias=True)
        if self.pattern is not None:
            given["description"] = " ".join(filter(None, (self.description, f"Pattern: {self.pattern}")))
        return {key: list(value) if isinstance(value, tuple) else value for key, value in given.items()}


def allowed_by_hand(own: Collection[str], setting: str) -> frozenset[str]:
    """Return the overrides that manual runs may have: those that the test and the setting allow, and all others.

    Raises ConfigError if the setting has another word.
    """
    words = setting.replace(",", " ").split()
    for word in words:
        if word not in PROGRAM:
            raise ConfigError(f"the setting by_hand: {word!r} is neither 'image' nor 'command'")
    return frozenset(name for name in RUN_OVERRIDES if name not in PROGRAM or name in own or name in words)


def check_program(given: Mapping[str, Any], own: Collection[str], allowed: Collection[str]) -> None:
    for name in PROGRAM:
        if given.get(name) and name not in own and name not in allowed:
            raise ConfigError(
                f"a manual run of this test may not have another {name}; allow it with `by_hand: [{name}]` in the test "
                "file, or by the setting by_hand"
            )


def check_given(given: Mapping[str, Any], params: Mapping[str, Parameter]) -> None:
    for name, param in params.items():
        if wrong := param.wrong(given.get(name)):
            raise ConfigError(
                f"the parameter {name!r} of this run: {wrong}; trigger another run with a value that does"
            )


KEYWORDS = frozenset(field.alias or name for name, field in Parameter.model_fields.items())


def check_references(text: str, params: dict[str, Parameter]) -> None:
    for template in re.findall(r"(?s){{.*?}}|{%.*?%}", text):
        for name in re.findall(r"\bparams\.([A-Za-z_]\w*)", template):
            if name not in params:
                near = did_you_mean(name, params)
                raise ValueError(f"{template} uses a parameter that `params` does not declare{near}")


def same(value: Any, other: Any) -> bool:
    """Whether two values are equal in JSON, where true is not 1, and 1 is 1.0."""
    if isinstance(value, list | tuple) and isinstance(other, list | tuple):
        return len(value) == len(other) and all(map(same, value, other))
    if isinstance(value, dict) and isinstance(other, dict):
        return value.keys() == other.keys() and all(same(value[key], other[key]) for key in value)
    return bool(value == other) and isinstance(value, bool) == isinstance(other, bool)


def _is_finite(value: Any) -> bool:
    if isinstance(value, dict | list | tuple):
        return all(map(_is_finite, value.values() if isinstance(value, dict) else value))
    return not isinstance(value, float) or math.isfinite(value)


def _parameter(value: Any) -> Any:
    """Accept a default alone as a parameter."""
    if isinstance(value, Parameter) or (isinstance(value, dict) and "default" in value):
        return value
    if isinstance(value, dict) and value and value.keys() <= KEYWORDS:
        raise ValueError("has no `default`; if this mapping is itself the value, write `{default: {...}}`")
    return {"default": value}


Params = dict[str, Annotated[Parameter, BeforeValidator(_parameter)]]


TRIAL, NOTIFY = "trial", "notify"
NODE = "trial_node"
"""What a trial is started with if it should run on the node of an earlier one. It is no field of the form."""
NOT_BY_HAND = frozenset({"scheduled", "backfill", "asset_triggered", "asset_materialization"})
"""The types that Airflow gives to runs that nobody started with values of their own."""
YES, NO = "yes", "no"


@dataclass(frozen=True, slots=True)
class Usual:
    """What a scheduled run of a test would use."""

    image: str | None = None
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    """The defaults of the test's parameters."""


def trial_of(run_type: str, given: Mapping[str, Any], usual: Usual) -> tuple[str, ...]:
    """Return what was changed in a run if that makes it a trial; nothing for a regular run.

    In a manual run, the field `trial` decides if it has a value. A trial in which nothing was changed has the name of
    that field.
    """
    choice = None if TRIAL in usual.params else given.get(TRIAL)
    if run_type == "scheduled" or choice == NO or (run_type in NOT_BY_HAND and choice != YES):
        return ()
    # a parameter of the test takes precedence over an override of the same name
    overrides = [name for name in PROGRAM if name not in usual.params and _overrides(name, given, usual)]
    own = [name for name, default in usual.params.items() if name in given and not same(given[name], default)]
    return (*overrides, *own) or ((TRIAL,) if choice == YES else ())


def pinned_node(conf: Mapping[str, Any], params: Collection[str]) -> str:
    """The node of a run that was started for one; empty unless it is a trial. A name in `params` is the test's own."""
    node = conf.get(NODE)
    is_trial = TRIAL not in params and NODE not in params and conf.get(TRIAL) == YES
    is_name = isinstance(node, str) and re.fullmatch(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", node)
    return str(node) if is_trial and is_name else ""


def addresses_in(text: Any) -> tuple[str, ...]:
    """Those of the field `notify`, each once. Anything else in it is left out."""
    found = re.split(r"[,;\s]+", text) if isinstance(text, str) else ()
    return tuple(dict.fromkeys(one for one in found if is_address(one)))


def _overrides(name: str, given: Mapping[str, Any], usual: Usual) -> bool:
    value = given.get(name)
    if not value:
        return False
    if name == "image":
        return not same(value, usual.image)
    return not usual.command or not same(list(value), [*usual.command, *usual.args])
