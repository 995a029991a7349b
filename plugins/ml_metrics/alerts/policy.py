"""When to speak: once when a test breaks, again when it gets worse, and once when it is well."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.alerts.message import Occasion

if TYPE_CHECKING:
    from collections.abc import Collection


def occasion_for(troubles: Collection[str], told: Collection[str] | None, *, well: bool) -> Occasion | None:
    """Why people should hear of a run, or None.

    Args:
        troubles: what is wrong with the run, each named in a way that stays the same from run to run.
        told: what the open alert of this test already told, or None if no alert is open.
        well: whether the run passed its gate. A run may have no trouble worth a message and still not be well.
    """
    if troubles and told is None:
        return Occasion.BROKEN
    if troubles and set(troubles) - set(told or ()):
        return Occasion.WORSE
    if well and told is not None:
        return Occasion.RECOVERED
    return None
