"""Any content of JSON lines: blocks of any size have the same result, nothing is raised, no complete line is lost."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from unit.measure.collect.run_folders import by_name, in_any_blocks

texts = st.text(max_size=4) | st.sampled_from(
    ["a", "b", "NaN", ": null", ": true", "2026-01-01", "12:30", "\n", "\ud800"]
)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2), max_leaves=6
)
numbers = st.integers(-5, 5) | st.floats() | st.none() | st.booleans()
objects = st.dictionaries(st.sampled_from(["a", "b", "c"]), numbers | values, max_size=3)
results = st.fixed_dictionaries(
    {"metrics": objects | values},
    optional={"dimensions": objects | values, "timestamp": numbers | values, "more": values},
)
flat_names = texts | st.sampled_from(["step", "_step", "time", "timestamp", "a", "b", "level", "msg", "metrics"])
flat_values = numbers | values | st.sampled_from([1.79e9, 1.79e12, "2026-01-01", "1.5", "nan", 3.0])
flat = st.dictionaries(flat_names, flat_values, max_size=4)
values_added = st.fixed_dictionaries(
    {"group": st.sampled_from(["g", "h"]) | values, "name": texts | values},
    optional={"timestamp": st.floats() | values, "value": numbers | values, "more": values},
)
REGULAR = [{"metrics": {"a": 1.5, "b": 2}, "dimensions": {"c": "x"}}] * 3
REGULAR_FLAT = [{"step": 1, "loss": 2.5, "run": "x"}] * 3
REGULAR_STREAM = [{"timestamp": 1.5, "group": "g", "name": "n", "value": 2}] * 3


@settings(max_examples=60, deadline=None)
@given(st.lists(results, max_size=4), st.sampled_from(["sub_runs", "points"]), st.sampled_from([(), ("a",)]))
def test_results(odd: list[Any], kind: str, named_by: tuple[str, ...]) -> None:
    content = "".join(f"{json.dumps(one)}\n" for one in [*REGULAR, *odd, *REGULAR])
    config = {"sources": {"json_lines": {"lines": kind, "named_by": named_by}}}
    found = in_any_blocks("results.jsonl", content.encode(), 100, **config)
    assert sum(one.points for one in found.metrics) >= 2 * len(REGULAR)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(flat | results, max_size=4),
    st.fixed_dictionaries(
        {},
        optional={
            "nulls": st.just("absent"),
            "step": st.sampled_from(["line", "a"]),
            "numbers_in_text": st.booleans(),
            "log_records": st.booleans(),
        },
    ),
)
def test_flat_lines(odd: list[Any], options: dict[str, Any]) -> None:
    content = "".join(f"{json.dumps(one)}\n" for one in [*REGULAR_FLAT, *odd, *REGULAR_FLAT])
    found = in_any_blocks("m.jsonl", content.encode(), 100, sources={"json_lines": options})
    if options.get("step", "line") == "line":
        assert by_name(found)["loss_final"].points >= 2 * len(REGULAR_FLAT)


@settings(max_examples=60, deadline=None)
@given(st.lists(values_added, max_size=4))
def test_streams(odd: list[Any]) -> None:
    content = "".join(f"{json.dumps(one)}\n" for one in [*REGULAR_STREAM, *odd, *REGULAR_STREAM])
    found = in_any_blocks("telemetry.jsonl", content.encode(), 100)
    assert by_name(found)["g/n_final"].points >= 2 * len(REGULAR_STREAM)


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=40), st.integers(0, 200))
def test_invalid_bytes(noise: bytes, where: int) -> None:
    whole = "".join(f"{json.dumps(one)}\n" for one in REGULAR_STREAM * 2).encode()
    found = in_any_blocks("telemetry.jsonl", whole[:where] + noise + whole[where:], 100)
    assert by_name(found)["g/n_final"].points >= 2 * len(REGULAR_STREAM) - 2 - noise.count(b"\n")
