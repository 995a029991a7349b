from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.alerts.message import Occasion
from ml_metrics.alerts.policy import Incident, News, Standing, news_of, occasion_for

FREE = Standing()


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


def test_a_warning_waits_for_the_digest() -> None:
    assert news_of([], ["a"], None, FREE, well=True) == News(Occasion.WARNING, "a warning")


def test_a_warning_beside_a_trouble_is_told_with_it() -> None:
    assert news_of(["a"], ["b"], None, FREE, well=False) == News(Occasion.BROKEN)


def test_quarantine_is_silence() -> None:
    quarantined = Standing(quarantined=True)
    assert news_of(["a"], ["b"], None, quarantined, well=False) is None
    assert news_of([], [], Incident(frozenset("a")), quarantined, well=True) is None


def test_what_gets_worse_while_somebody_knows_waits_and_the_recovery_does_not() -> None:
    known = Incident(frozenset({"a"}), acknowledged=True)
    assert news_of(["b"], [], known, FREE, well=False) == News(Occasion.WORSE, "somebody knows of it")
    assert news_of([], [], known, FREE, well=True) == News(Occasion.RECOVERED)


def test_an_owner_is_told_so_many_things_an_hour_and_the_rest_in_a_digest() -> None:
    assert news_of(["a"], [], None, Standing(mails_this_hour=9, mails_per_hour=10), well=False) == News(Occasion.BROKEN)
    held = news_of(["a"], [], None, Standing(mails_this_hour=10, mails_per_hour=10), well=False)
    assert held == News(Occasion.BROKEN, "the owner got 10 messages within an hour")


TROUBLES = st.frozensets(st.sampled_from("abc"))


@given(st.lists(st.tuples(TROUBLES, st.booleans()), max_size=40))
def test_every_trouble_is_told_once_in_an_incident_and_every_incident_ends_once(
    runs: list[tuple[frozenset[str], bool]],
) -> None:
    told: set[str] | None = None
    for troubles, passed in runs:
        well = passed and not troubles
        occasion = occasion_for(troubles, told, well=well)
        if told is None:
            assert occasion is (Occasion.BROKEN if troubles else None)
        else:
            expected = Occasion.WORSE if troubles - told else Occasion.RECOVERED if well else None
            assert occasion is expected
        if occasion is Occasion.RECOVERED:
            told = None
        elif occasion is not None:
            told = (told or set()) | troubles
        assert told is None or troubles <= told
