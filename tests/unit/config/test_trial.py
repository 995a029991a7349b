"""Which runs are trials."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from ml_metrics.config.params import NOT_BY_HAND, RUN_OVERRIDES, Usual, addresses_in, same, trial_of

USUAL = Usual("trainer:v1", ("python", "train.py"), ("--fast",), {"size": 10, "layers": [1, 2], "warm": True})
REGULAR = {"image": None, "command": None, "trial": None, "notify": None, **USUAL.params}
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
NAMES = st.text(max_size=3)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
)
BY_HAND = st.sampled_from(["manual", "operator_triggered", "a type of a later Airflow"])


@pytest.mark.parametrize(
    ("given", "changed"),
    [
        ({}, ()),
        ({"image": "trainer:v2"}, ("image",)),
        ({"image": "trainer:v1"}, ()),
        ({"image": ""}, ()),
        ({"command": ["python", "other.py"]}, ("command",)),
        ({"command": ["python", "train.py"]}, ("command",)),
        ({"command": ["python", "train.py", "--fast"]}, ()),
        ({"command": []}, ()),
        ({"size": 20}, ("size",)),
        ({"size": 10.0}, ()),
        ({"size": "10"}, ("size",)),
        ({"size": None}, ("size",)),
        ({"layers": (1, 2)}, ()),
        ({"layers": [True, 2]}, ("layers",)),
        ({"warm": 1}, ("warm",)),
        ({"warm": False, "size": 1, "command": ["x"], "image": "y"}, ("image", "command", "size", "warm")),
        ({"notify": "a@example.com"}, ()),
        ({"unknown": 1}, ()),
        ({"trial": "yes"}, ("trial",)),
        ({"trial": "yes", "size": 20}, ("size",)),
        ({"trial": "no", "size": 20}, ()),
        ({"trial": "", "size": 20}, ("size",)),
    ],
)
def test_a_run_by_hand_is_a_trial_if_something_differs(given: dict[str, Any], changed: tuple[str, ...]) -> None:
    assert trial_of("manual", {**REGULAR, **given}, USUAL) == changed


def test_a_command_that_replaces_the_entrypoint_of_the_image_is_a_change() -> None:
    assert trial_of("manual", {"command": ["--fast"]}, Usual("i", (), ("--fast",))) == ("command",)


@pytest.mark.parametrize("name", ["image", "command", "trial"])
def test_a_parameter_of_the_test_takes_precedence_over_an_override_of_its_name(name: str) -> None:
    usual = Usual("i", ("c",), (), {name: "no"})
    assert trial_of("manual", {name: "no"}, usual) == ()
    assert trial_of("manual", {name: "other"}, usual) == (name,)


def test_a_backfill_is_a_trial_only_if_it_states_so() -> None:
    assert trial_of("backfill", {**REGULAR, "size": 20}, USUAL) == ()
    assert trial_of("backfill", {**REGULAR, "size": 20, "trial": "yes"}, USUAL) == ("size",)


@given(params=st.dictionaries(NAMES, JSON, max_size=4), run_type=BY_HAND | st.sampled_from(sorted(NOT_BY_HAND)))
def test_a_run_with_nothing_changed_is_regular(params: dict[str, Any], run_type: str) -> None:
    given = json.loads(json.dumps({**dict.fromkeys(RUN_OVERRIDES), **params}))
    assert trial_of(run_type, given, Usual("i", ("c",), (), params)) == ()


@given(given=st.dictionaries(st.sampled_from([*REGULAR, "trial"]), JSON | st.sampled_from(["yes", "no"]), max_size=4))
def test_a_scheduled_run_is_never_a_trial(given: dict[str, Any]) -> None:
    assert trial_of("scheduled", given, USUAL) == ()


@given(default=JSON, value=JSON, run_type=BY_HAND)
def test_another_value_of_a_parameter_makes_a_trial(default: Any, value: Any, run_type: str) -> None:
    expected = () if same(value, default) else ("p",)
    assert trial_of(run_type, {"p": value}, Usual(params={"p": default})) == expected


@given(value=JSON)
def test_a_value_is_the_same_as_itself_after_json(value: Any) -> None:
    assert same(json.loads(json.dumps(value)), value)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (None, ()),
        ("", ()),
        (7, ()),
        ("a@example.com", ("a@example.com",)),
        (" a@example.com; b@example.com,a@example.com\n", ("a@example.com", "b@example.com")),
        ("not-an-address, a@example.com", ("a@example.com",)),
        ("a@b@c, <a@example.com>, a@example.com\r\nBcc: x", ("a@example.com",)),
    ],
)
def test_the_addresses_of_a_field(text: Any, found: tuple[str, ...]) -> None:
    assert addresses_in(text) == found


@pytest.mark.parametrize(
    ("name", "value", "fits"),
    [
        ("notify", None, True),
        ("notify", "", True),
        ("notify", "a@example.com, b@example.com", True),
        ("notify", "a@example.com;\nb@example.com;", True),
        ("notify", "alice", False),
        ("notify", "a@example.com bob", False),
        ("notify", "a@b" * 5000, False),
        ("trial", "yes", True),
        ("trial", None, True),
        ("trial", "maybe", False),
        ("trial", True, False),
    ],
)
def test_the_trigger_form_checks_its_fields(name: str, value: Any, *, fits: bool) -> None:
    assert Draft202012Validator(RUN_OVERRIDES[name]).is_valid(value) is fits
