"""Parameters of a test: what a person may change when starting a run by hand."""

from __future__ import annotations

import re
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from ml_metrics.config.problems import did_you_mean
from ml_metrics.config.strict import Strict

_TYPES: dict[str, tuple[type, ...]] = {
    "array": (list, tuple),
    "boolean": (bool,),
    "integer": (int,),
    "null": (type(None),),
    "number": (int, float),
    "object": (dict,),
    "string": (str,),
}
"""The types of JSON Schema, in Python's."""
_TEMPLATE = re.compile(r"{{.*?}}|{%.*?%}", re.DOTALL)
_REFERENCE = re.compile(r"\bparams\.([A-Za-z_]\w*)")


class Parameter(Strict):
    """One field of the form in which a run is started. All but `default` are keywords of JSON Schema."""

    default: Any = None
    """The value of every run that was not started with another."""
    type: str | tuple[str, ...] | None = None
    """`string`, `integer`, `number`, `boolean`, `object`, `array`, `null`, or a list of those."""
    title: str | None = None
    """What the form calls it."""
    description: str | None = None
    """What the form says about it."""
    enum: tuple[Any, ...] | None = None
    """The only values that are allowed."""
    minimum: float | None = None
    """The least number."""
    maximum: float | None = None
    """The greatest number."""
    min_length: int | None = Field(None, ge=0, alias="minLength")
    """The least length of a text."""
    max_length: int | None = Field(None, ge=0, alias="maxLength")
    """The greatest length of a text."""
    pattern: str | None = None
    """A regular expression for a text."""
    format: str | None = None
    """`date`, `date-time`, `multiline`, ...: how the form shows it."""
    examples: tuple[Any, ...] | None = None
    """Values that the form suggests."""
    section: str | None = None
    """The heading under which the form shows it."""

    @model_validator(mode="after")
    def default_fits(self) -> Self:
        """A default that its own schema refuses would make every scheduled run fail."""
        types = (self.type,) if isinstance(self.type, str) else self.type or ()
        for name in types:
            if name not in _TYPES:
                raise ValueError(f"{name!r} is no type; there are {', '.join(_TYPES)}{did_you_mean(name, _TYPES)}")
        if types and not any(_is_of(self.default, name) for name in types):
            raise ValueError(f"the default {self.default!r} is not of type {' or '.join(types)}")
        if self.enum is not None and self.default not in self.enum:
            raise ValueError(f"the default {self.default!r} is none of {', '.join(map(repr, self.enum))}")
        if isinstance(self.default, int | float):
            low, high = self.minimum, self.maximum
            if (low is not None and self.default < low) or (high is not None and self.default > high):
                raise ValueError(f"the default {self.default!r} is not within its minimum and maximum")
        return self

    def schema_keywords(self) -> dict[str, Any]:
        """All that was said about it but the default, for `airflow.sdk.Param`."""
        said = self.model_dump(exclude={"default"}, exclude_none=True, by_alias=True)
        return {key: list(value) if isinstance(value, tuple) else value for key, value in said.items()}


def check_references(text: str, params: dict[str, Parameter]) -> None:
    """Raise ValueError if a template in the text names a parameter that there is not."""
    for template in _TEMPLATE.findall(text):
        for name in _REFERENCE.findall(template):
            if name not in params:
                raise ValueError(
                    f"{template} names a parameter that `params` does not have{did_you_mean(name, params)}"
                )


def _is_of(value: Any, name: str) -> bool:
    """Whether a value is of a type of JSON Schema, in which true is no number."""
    return isinstance(value, _TYPES[name]) and (name == "boolean" or not isinstance(value, bool))


def _parameter(value: Any) -> Any:
    """A default alone is a parameter, too."""
    if isinstance(value, Parameter) or (isinstance(value, dict) and "default" in value):
        return value
    return {"default": value}


Params = dict[str, Annotated[Parameter, BeforeValidator(_parameter)]]
