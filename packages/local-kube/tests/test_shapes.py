"""The pure parts: selectors, patches, quantities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local_kube.api.patches import apply_patch
from local_kube.api.selectors import by_fields, by_labels
from local_kube.errors import ApiError
from local_kube.formats import parse_quantity

if TYPE_CHECKING:
    from local_kube.json_files import Document

MERGE, STRATEGIC, OPERATIONS = (
    f"application/{kind}+json" for kind in ("merge-patch", "strategic-merge-patch", "json-patch")
)
WORDS = st.text(alphabet="abcxyz019", min_size=1, max_size=5)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=10,
)
OBJECTS = st.dictionaries(WORDS, JSON, max_size=4)


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
def test_a_selector_that_makes_no_sense_is_refused(selector: str) -> None:
    with pytest.raises(ApiError):
        by_labels(selector)


@given(st.dictionaries(WORDS, WORDS, max_size=4))
def test_an_object_is_found_by_its_own_labels_and_not_by_their_opposite(labels: dict[str, str]) -> None:
    document = labelled(**labels)
    assert by_labels(",".join(f"{key}={value}" for key, value in labels.items()))(document)
    assert not any(by_labels(f"{key}!={value}")(document) for key, value in labels.items())


def test_field_selectors() -> None:
    pod = {"metadata": {"name": "x"}, "status": {"phase": "Running"}, "spec": {}}
    assert by_fields("status.phase=Running,metadata.name!=y,spec.nodeName=")(pod)
    assert not by_fields("status.phase!=Running")(pod)
    with pytest.raises(ApiError):
        by_fields("phase")


@given(OBJECTS, OBJECTS)
def test_a_merge_patch_can_make_any_object_of_any_other(before: Document, after: Document) -> None:
    def without_nulls(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}

    wanted = without_nulls(after)
    wiped = apply_patch(before, dict.fromkeys(before), MERGE)
    assert apply_patch(wiped, wanted, MERGE) == wanted
    assert apply_patch(before, {}, MERGE) == before


@pytest.mark.parametrize(
    ("patch", "containers"),
    [
        ([{"name": "b", "image": "new"}], [{"name": "a", "image": "1"}, {"name": "b", "image": "new"}]),
        ([{"name": "a", "$patch": "delete"}], [{"name": "b", "image": "2"}]),
        ([{"name": "c"}], [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}, {"name": "c"}]),
        (
            [{"name": "a", "image": None, "tty": True}],
            [{"name": "a", "tty": True}, {"name": "b", "image": "2"}],
        ),
    ],
)
def test_a_strategic_patch_merges_containers_by_name(patch: list[Document], containers: list[Document]) -> None:
    before = {"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]}}
    assert apply_patch(before, {"spec": {"containers": patch}}, STRATEGIC)["spec"]["containers"] == containers
    assert len(before["spec"]["containers"]) == 2, "the object itself is left alone"


def test_a_strategic_patch_changes_sets_and_replaces_plain_lists() -> None:
    before = {"finalizers": ["a", "b"], "args": ["1", "2"], "nodeSelector": {"x": "1"}}
    patch = {
        "finalizers": ["c"],
        "$deleteFromPrimitiveList/finalizers": ["a"],
        "args": ["3"],
        "nodeSelector": {"$patch": "replace", "y": "2"},
    }
    assert apply_patch(before, patch, STRATEGIC) == {
        "finalizers": ["b", "c"],
        "args": ["3"],
        "nodeSelector": {"y": "2"},
    }


def test_a_json_patch() -> None:
    operations = [
        {"op": "test", "path": "/a", "value": 1},
        {"op": "add", "path": "/list/-", "value": "z"},
        {"op": "add", "path": "/list/0", "value": "first"},
        {"op": "replace", "path": "/list/1", "value": "second"},
        {"op": "copy", "from": "/a", "path": "/b"},
        {"op": "move", "from": "/b", "path": "/c~1d~0"},
        {"op": "remove", "path": "/a"},
    ]
    assert apply_patch({"a": 1, "list": ["x"]}, operations, OPERATIONS) == {"list": ["first", "second", "z"], "c/d~": 1}
    for bad in ({"op": "test", "path": "/a", "value": 2}, {"op": "replace", "path": "/q", "value": 2}, {"op": "?"}, 7):
        with pytest.raises(ApiError):
            apply_patch({"a": 1}, [bad], OPERATIONS)


def test_an_unknown_kind_of_patch_is_refused() -> None:
    with pytest.raises(ApiError, match="unknown format"):
        apply_patch({}, {}, "application/apply-patch+yaml")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("500m", 0.5),
        ("2", 2),
        ("1.5Gi", 1.5 * 2**30),
        ("128Mi", 2**27),
        ("1e3", 1000),
        ("1G", 1e9),
        ("100k", 1e5),
        (4, 4),
    ],
)
def test_quantities(text: str, number: float) -> None:
    assert parse_quantity(text) == pytest.approx(number)


@pytest.mark.parametrize("text", ["", "Mi", "1 Gi", "1GB", "one", "1.2.3"])
def test_what_is_no_quantity(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        parse_quantity(text)
