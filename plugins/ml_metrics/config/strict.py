"""The bases of all models for config files."""

from typing import ClassVar, Self

from pydantic import BaseModel, ConfigDict, model_validator


class Strict(BaseModel):
    """A model that rejects unknown keys, infinity and NaN, and is immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, populate_by_name=True)


class OneOf(Strict):
    """A model with alternatives, of which exactly one is given."""

    noun: ClassVar[str]
    modifiers: ClassVar[frozenset[str]] = frozenset()
    """The keys that are not alternatives."""

    @model_validator(mode="after")
    def exactly_one(self) -> Self:
        """Reject a model without an alternative or with several."""
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
