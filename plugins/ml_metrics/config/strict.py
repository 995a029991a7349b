"""The base of all models for config files."""

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """A model that rejects unknown keys, infinity and NaN, and is immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, populate_by_name=True)
