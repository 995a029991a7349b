"""`baseline` of a condition: which earlier runs are comparable with a run."""

from difflib import get_close_matches

from pydantic import Field, field_validator

from ml_metrics.config.strict import Strict
from ml_metrics.values import storable_name

RECORDED = ("image", "image_digest", "node_type", "accelerator", "framework")
"""The attributes of a run that are not keys of its metadata."""

SLIP = 0.85
"""How similar a name is to a recorded one if it is a slip. A metadata key may be similar to one."""


class Baseline(Strict):
    """The earlier runs that a run is compared with."""

    same: tuple[str, ...] = Field(min_length=1)
    """Only runs in which these attributes are the same: image, image_digest, node_type, accelerator, framework, or any
    metadata key, such as param.epochs."""

    @field_validator("same")
    @classmethod
    def names_are_distinct_and_known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        """Reject an empty name, a repeated one, and one that is another spelling of a recorded attribute."""
        plain = {_plain(name): name for name in RECORDED}
        for name in names:
            if not name.strip():
                raise ValueError("an attribute has an empty name")
            near = get_close_matches(_plain(name), plain, n=1, cutoff=SLIP)
            if name not in RECORDED and near:
                raise ValueError(f"{name!r} is no attribute of a run; did you mean {plain[near[0]]!r}?")
        if len(set(names)) < len(names):
            raise ValueError("an attribute is named twice")
        return tuple(map(storable_name, names))


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name.casefold()))
