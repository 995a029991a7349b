"""Paths lead to the value that they name, and no other text is a path."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.config.paths import check_name, filled, find, parts_of, path_to

DOCUMENT = {
    "eval": {"accuracy": 0.91, "top 1": 0.7},
    "runs": [{"name": "a", "p99": 3, "on": {"name": "gpu"}}, {"name": "b", "p99": 4}],
    "by": {"x": {"v": 1}, "y": {"v": 2}},
    "1/5": 5,
    "😀\t'": 6,
}


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("$.eval.accuracy", [0.91]),
        ("$['eval']['top 1']", [0.7]),
        ('$.eval["top 1"]', [0.7]),
        ("$.runs[0].p99", [3]),
        ("$.runs[-1].p99", [4]),
        ("$.runs[2].p99", []),
        ("$.runs[*].p99", [3, 4]),
        ("$.by.*.v", [1, 2]),
        ("$..v", [1, 2]),
        ("$..runs[*].p99", [3, 4]),
        ("$.runs[?(@.name == 'b')].p99", [4]),
        ('$.runs[?@["name"] == "b"].p99', [4]),
        ("$['1/5']", [5]),
        ('$["1\\/\\u0035"]', [5]),
        ("$['\\ud83d\\ude00\\t\\'']", [6]),
        ("$.eval.accuracy.more", []),
        ("$.runs.name", []),
    ],
)
def test_a_path_leads_to_its_values(path: str, values: list[Any]) -> None:
    assert [match.value for match in find(path, DOCUMENT)] == values


@pytest.mark.parametrize(
    "path",
    ["", "a", "eval.accuracy", "$.", "$..", "$[", "$.a[b]", "$.a[1:2]", "$[?(@.a > 1)]", "$..a..b", "$" + ".a" * 21],
)
def test_another_text_is_no_path(path: str) -> None:
    with pytest.raises(ValueError, match=r"is not a path|more than"):
        parts_of(path)


def test_names_hold_fields_around_the_value_the_innermost_first() -> None:
    (gpu,) = find("$.runs[0].on.name", DOCUMENT)
    assert filled("{name}/{p99}/{file}", gpu, "results/a.b.json") == "gpu/3/a"
    assert [filled("{1}", match, "f") for match in find("$.by.*.v", DOCUMENT)] == ["x", "y"]
    assert filled("{other}", gpu, "f") is None
    with pytest.raises(ValueError, match="braces"):
        check_name("a{b")


values = st.recursive(
    st.integers() | st.text(max_size=3),
    lambda one: st.lists(one, max_size=4) | st.dictionaries(st.text(max_size=5), one, max_size=4),
)


@pytest.mark.parametrize("key", [".A", "..", "", "*", "\x85"])
def test_the_path_to_an_odd_key_leads_to_it(key: str) -> None:
    assert [match.value for match in find(path_to((key,)), {key: 1, "A": 2})] == [1]


@given(values, st.data())
def test_the_path_to_a_value_leads_to_it(document: Any, data: st.DataObject) -> None:
    keys: list[str | int] = []
    value = document
    while isinstance(value, dict | list) and value and data.draw(st.booleans()) and len(keys) < 20:
        key = data.draw(st.sampled_from(list(value) if isinstance(value, dict) else range(len(value))))
        keys.append(key)
        value = value[key]
    path = path_to(tuple(keys))
    assert path.isprintable()
    (match,) = find(path, document)
    assert match.value is value
