"""The three patch formats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local_kube.api.requests import apply_patch
from local_kube.errors import ApiError

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


@given(OBJECTS, OBJECTS)
def test_a_merge_patch_can_turn_any_object_into_any_other(before: Document, after: Document) -> None:
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
    assert len(before["spec"]["containers"]) == 2, "the object itself is not changed"


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


def test_an_unknown_patch_format_is_rejected() -> None:
    with pytest.raises(ApiError, match="unknown format"):
        apply_patch({}, {}, "application/apply-patch+yaml")
