from __future__ import annotations

import pytest

from ml_metrics.alerts.policy import occasion_for


@pytest.mark.parametrize(
    ("troubles", "told", "well", "occasion"),
    [
        ([], None, True, None),
        (["a"], None, False, "broken"),
        (["a"], ["a"], False, None),
        (["a"], ["a", "b"], False, None),
        (["a", "b"], ["a"], False, "worse"),
        ([], ["a"], True, "recovered"),
        ([], ["a"], False, None),  # silenced and not well: neither news nor recovery
        ([], None, False, None),
    ],
)
def test_people_hear_of_news_only(
    troubles: list[str], told: list[str] | None, well: bool, occasion: str | None
) -> None:
    assert occasion_for(troubles, told, well=well) == occasion
