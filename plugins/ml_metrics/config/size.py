"""The base of sizes that are given absolutely, in percent, or both."""

from typing import Self

from pydantic import model_validator

from ml_metrics.config.strict import Strict


class Size(Strict):
    """An absolute size, one in percent, or both, of which the greater counts."""

    @model_validator(mode="after")
    def some_size_is_given(self) -> Self:
        """Reject a mapping without a size."""
        if all(getattr(self, name) is None for name in type(self).model_fields):
            raise ValueError("give percent, absolute or both")
        return self
