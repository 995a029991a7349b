"""The profiles that come with the package."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.collect.profiles import hugging_face, keras, maxtext, megatron, nemo, torchtitan

if TYPE_CHECKING:
    from ml_metrics.collect.profiles.profile import Profile

PROFILES: tuple[Profile, ...] = tuple(
    module.PROFILE for module in (maxtext, megatron, torchtitan, nemo, keras, hugging_face)
)
BY_NAME = {one.name: one for one in PROFILES}
