"""The names of the tests that series become."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.config.naming import MAX_NAME, as_name, check_name
from ml_metrics.values import short_hash

if TYPE_CHECKING:
    from collections.abc import Sequence

DIGEST = 8


def test_names(series: Sequence[str], test: str | None) -> dict[str, str]:
    """Return the name of a test for each series: `test`, if there is one series, else with the series after it.

    Raises:
        ValueError: A series has no name, or two would have the same.
    """
    if test is not None:
        check_name(test)
    if test is not None and len(series) == 1:
        return {series[0]: test}
    found: dict[str, str] = {}
    for one in series:
        name = "-".join(part for part in (test or "", as_name(one)) if part)
        if not as_name(one):
            raise ValueError("the history does not name what it measured; name the test with --test NAME")
        if len(name) > MAX_NAME:
            name = f"{name[: MAX_NAME - DIGEST - 1].rstrip('-')}-{short_hash(one)[:DIGEST]}"
        other = next((known for known, taken in found.items() if taken == name), None)
        if other is not None:
            raise ValueError(
                f"the series {other!r} and {one!r} would both be the test {name}; import one with --series"
            )
        found[one] = check_name(name)
    return found
