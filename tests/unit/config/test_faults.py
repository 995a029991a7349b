"""The faults of a test file: which are understood, which are refused, and the plan that they make."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics import TestDefinition
from ml_metrics.config.faults import KINDS, SPELLED, Fault, parse_at, planned
from ml_metrics.config.loading import load_file
from ml_metrics.config.policy import Policy, refused_in
from ml_metrics.config.problems import InvalidFileError

TEST = "name: t\nimage: i:1\ncommand: [x]\ntimeout: 10m\nhosts: 2\nparams: {step: 5}\n"
FITTING = "resources: {memory: 1Gi}\nvolumes: {/cache: {memory: 1Mi}}\n"


def problem(fault: str, tmp_path: Path) -> str:
    path = tmp_path / "t.yaml"
    path.write_text(f"{TEST}faults:\n  - {fault}\n")
    with pytest.raises(InvalidFileError) as caught:
        load_file(path)
    (line,) = str(caught.value).splitlines()
    return line.partition("t.yaml:")[2]


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("{at: step 5, what: kil}", "8: faults[0].what: 'kil' is not a fault; available: kill, terminate,"),
        ("{at: step 5, what: kil}", "; did you mean 'kill'?"),
        ("{at: step 5, what: drain}", "needs the right to `patch nodes`: `evict` does to the"),
        ("{at: step 5, what: no_network(30s)}", "'no_network' is not possible: it needs the right to"),
        ("{at: step 5, what: slow(60s)}", "`slow` needs two values: slow(2x, 60s)"),
        ("{at: step 5, what: 'slow(1x, 60s)'}", "'1x' is not how many times slower: write `2x`, at most 100x"),
        ("{at: step 5, what: 'slow(twice, 60s)'}", "'twice' is not how many times slower"),
        ("{at: step 5, what: 'lose_storage(../a, 30s)'}", "not a folder below the run folder, as it leads out of it"),
        ("{at: step 5, what: 'lose_storage(_ml_metrics/x, 30s)'}", "as it is not of the workload"),
        ("{at: step 5, what: 'lose_storage(a, 30s)', where: host 1}", "all hosts of a run have the same folder"),
        ("{at: step 5, what: out_of_memory}", "`out_of_memory` needs `resources: {memory: ...}`"),
        ("{at: step 5, what: disk_full(30s)}", "`disk_full` needs a volume with `memory`"),
        ("{at: step 5, what: freeze}", "`freeze` needs its duration: freeze(30s)"),
        ("{at: step 5, what: kill(3s)}", "`kill` takes nothing in brackets, not '3s'"),
        ("{at: step five, what: kill}", "8: faults[0].at: 'step five' is not a time of a fault: write `step 20`"),
        ("{at: random(2m..1m seed 1), what: kill}", "should name the earlier time first"),
        ("{at: random(1m..2m), what: kill}", "is not a time of a fault"),
        ("{at: step 5, what: kill, where: host 2}", "8: faults[0]: there is no host 2: the test has 2, from host 0"),
        ("{at: step 5, what: kill, where: host one}", "not a place of a fault; available: host 0, any, coordinator"),
        ("{at: step 5, what: kill, times: 2}", "`times` above 1 and `every` belong together"),
        ("{at: step 5, what: kill, every: 2s}", "`times` above 1 and `every` belong together"),
        ("{at: 11m, what: kill}", "ends 660 seconds after the start, which the `timeout` of 600 seconds precludes"),
        ("{at: 5m, what: freeze(5m)}", "ends 600 seconds after the start"),
        ("{at: step 5, what: kill, times: 101, every: 1s}", "less than or equal to 100"),
        ("{at: 4m, what: kill, times: 4, every: 2m}", "ends 600 seconds after the start"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_line(fault: str, told: str, tmp_path: Path) -> None:
    assert told in problem(fault, tmp_path)


def test_each_kind_can_be_planned(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(f"{TEST}{FITTING}faults:\n" + "".join(f"  - {{at: 5s, what: '{one}'}}\n" for one in SPELLED))
    (test,) = load_file(path).tests
    assert [one.kind for one in planned(test.faults)] == list(KINDS)
    slow, storage = (next(one for one in planned(test.faults) if one.kind == kind) for kind in ("slow", "lose_storage"))
    assert (slow.factor, slow.lasts, storage.folder, storage.lasts) == (2.0, 60.0, "checkpoints", 30.0)


def test_a_plan_has_each_fault_by_itself_and_leaves_nothing_to_chance() -> None:
    fault = {"at": "random(1m..2m, seed 7)", "what": "freeze(30s)", "where": "all", "times": 3, "every": "1m"}
    given = tuple(Fault.model_validate(one) for one in (fault, {"at": "step 20", "what": "kill"}))
    first, *rest, last = planned(given)
    assert first == planned(given)[0]
    assert 60 <= (first.after or 0) <= 120
    assert [(one.follows, one.after, one.lasts) for one in rest] == [(0, 60.0, 30.0), (1, 60.0, 30.0)]
    assert (last.number, last.step, last.after, last.where) == (3, 20, None, "any")


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(0, 10**18 - 1))
def test_a_drawn_time_is_between_its_bounds(first: int, longer: int, seed: int) -> None:
    fault = Fault(at=f"random({first}s..{first + longer}s seed {seed})", what="kill")
    (one,) = planned((fault,))
    assert first <= (one.after or 0) <= first + longer


def test_a_template_is_checked_when_it_is_filled_in() -> None:
    content: dict[str, Any] = {"name": "t", "image": "i", "command": ["x"], "params": {"n": 5}}
    test = TestDefinition.model_validate({**content, "faults": [{"at": "step {{ params.n }}", "what": "kill"}]})
    with pytest.raises(ValueError, match="is not a time of a fault"):
        planned(test.faults)
    assert parse_at("step 5").step == 5


def test_the_policy_allows_kinds_of_faults() -> None:
    faults = [{"at": "step 5", "what": "kill"}, {"at": "9s", "what": "freeze(3s)"}]
    test = TestDefinition.model_validate({"name": "t", "image": "i", "command": ["x"], "faults": faults})
    assert list(refused_in(test, Policy())) == []
    ((where, what),) = refused_in(test, Policy(faults=("freeze",)))
    assert (where, what) == (("faults", 0, "what"), "'kill' is not in `faults` of the policy, which has freeze")
