"""Label and field selectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local_kube.api.selectors import by_fields, by_labels
from local_kube.errors import ApiError

if TYPE_CHECKING:
    from local_kube.json_files import Document

WORDS = st.text(alphabet="abcxyz019", min_size=1, max_size=5)


def labelled(**labels: str) -> Document:
    return {"metadata": {"labels": labels}}


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("", True),
        ("a=1", True),
        ("a==1,b=2", True),
        ("a=2", False),
        ("a!=2,ghost!=x", True),
        ("a in (1, 3)", True),
        ("a notin (1,3)", False),
        ("ghost notin (1)", True),
        ("a", True),
        ("!a", False),
        ("!ghost", True),
        ("a in (1),b in (2),!c", True),
        ("e=", True),
    ],
)
def test_label_selectors(selector: str, matches: bool) -> None:
    assert by_labels(selector)(labelled(a="1", b="2", e="")) is matches


@pytest.mark.parametrize("selector", ["a=b=c", "a b", "in (1)", "a in 1", "="])
def test_an_invalid_selector_is_rejected(selector: str) -> None:
    with pytest.raises(ApiError):
        by_labels(selector)


@given(st.dictionaries(WORDS, WORDS, max_size=4))
def test_an_object_matches_its_own_labels_and_not_their_negation(labels: dict[str, str]) -> None:
    document = labelled(**labels)
    assert by_labels(",".join(f"{key}={value}" for key, value in labels.items()))(document)
    assert not any(by_labels(f"{key}!={value}")(document) for key, value in labels.items())


def test_field_selectors() -> None:
    pod = {"metadata": {"name": "x"}, "status": {"phase": "Running"}, "spec": {}}
    assert by_fields("status.phase=Running,metadata.name!=y,spec.nodeName=")(pod)
    assert not by_fields("status.phase!=Running")(pod)
    with pytest.raises(ApiError):
        by_fields("phase")
