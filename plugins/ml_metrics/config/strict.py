"""The bases of all models for config files."""

import re
from collections.abc import Callable
from typing import Any, ClassVar, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, GetCoreSchemaHandler, model_validator
from pydantic_core import CoreSchema, core_schema

BOOLEANS = {"true": True, "false": False}
"""Booleans in quotes, in any case, as older documentation had them."""
_NO_SCHEMAS = frozenset({"default", "metadata", "config", "serialization", "expected"})
"""The keys of a core schema whose values hold none."""


def _without_guesses(schema: Any, model: type[BaseModel]) -> Any:
    """Return a core schema in which numbers, texts and booleans are only read from themselves.

    Other models within the model are left alone: each was made strict by its own class.
    """
    if isinstance(schema, list | tuple):
        return type(schema)(_without_guesses(each, model) for each in schema)
    if not isinstance(schema, dict) or (schema.get("type") == "model" and schema["cls"] is not model):
        return schema
    kind = schema.get("type")
    if kind in {"str", "float"}:
        return {**schema, "strict": True}
    if kind in {"bool", "int"}:
        return core_schema.no_info_before_validator_function(_plain, {**schema, "strict": True})
    if kind == "model-fields":
        return {**schema, "fields": {name: _without_guesses(each, model) for name, each in schema["fields"].items()}}
    return {key: value if key in _NO_SCHEMAS else _without_guesses(value, model) for key, value in schema.items()}


def _plain(value: Any) -> Any:
    """A float without a fraction is the integer that it is, as JSON has one type of number; `"True"` is a boolean."""
    if isinstance(value, str):
        return BOOLEANS.get(value.lower(), value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


class Strict(BaseModel):
    """A model that rejects unknown keys, infinity, NaN and values of another JSON type, and is immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, populate_by_name=True)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Without the conversions of pydantic: `true` is no number, and `"0.96"` neither."""
        schema: CoreSchema = handler(source)
        strict: CoreSchema = _without_guesses(schema, cls)
        return strict


def checked(check: Callable[[Any], object]) -> AfterValidator:
    """The function raises ValueError for a wrong value. What it returns is not used."""

    def unchanged(value: Any) -> Any:
        check(value)
        return value

    return AfterValidator(unchanged)


def matching(pattern: str, what: str) -> AfterValidator:
    """A text that has the form of a pattern; `what` follows "is not"."""

    def check(text: str) -> None:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"{text!r} is not {what}")

    return checked(check)


def short_form(kind: type, key: str, hint: str) -> BeforeValidator:
    """Accept one value in place of a mapping with one key."""

    def expanded(value: Any) -> Any:
        if isinstance(value, kind) and value != "" and not isinstance(value, bool):
            return {key: value}
        if value is None or isinstance(value, dict | BaseModel):
            return value
        raise ValueError(f"{hint}; {value!r} is neither")

    return BeforeValidator(expanded)


class OneOf(Strict):
    """A model with alternatives, of which exactly one is given."""

    noun: ClassVar[str]
    modifiers: ClassVar[frozenset[str]] = frozenset()
    """The keys that are not alternatives."""

    @model_validator(mode="after")
    def exactly_one(self) -> Self:
        given = self._given()
        if len(given) != 1:
            what, all_names = " and ".join(given) or "none", ", ".join(self._alternatives())
            raise ValueError(f"give exactly one {self.noun}, not {what}; available: {all_names}")
        return self

    @property
    def kind(self) -> str:
        """The name of the alternative that is given."""
        return self._given()[0]

    def _given(self) -> list[str]:
        return [name for name in self._alternatives() if getattr(self, name) is not None]

    def _alternatives(self) -> list[str]:
        return [name for name in type(self).model_fields if name not in self.modifiers]
