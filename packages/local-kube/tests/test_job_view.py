"""The decisions of the Job controller, without a server."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from local_kube.jobs.view import COMPLETION_INDEX, EndedPod, JobView, ranges, status_of

ENDED = st.builds(
    EndedPod, st.sampled_from(["Succeeded", "Failed", "Dropped"]), st.none() | st.integers(0, 5), st.floats(0, 100)
)
SPECS = st.fixed_dictionaries(
    {
        "completions": st.integers(0, 6),
        "parallelism": st.integers(0, 6),
        "backoffLimit": st.integers(0, 6),
        "completionMode": st.sampled_from(["Indexed", "NonIndexed"]),
        "podReplacementPolicy": st.sampled_from(["Failed", "TerminatingOrFailed"]),
        "suspend": st.booleans(),
    }
)
PODS = st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=6)


def view(spec: dict[str, Any], ended: list[EndedPod] = [], pods: list[tuple[int, bool]] = [], **job: Any) -> JobView:  # noqa: B006
    def pod(index: int, ending: bool) -> dict[str, Any]:
        ends = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if ending else {}
        return {"metadata": {"annotations": {COMPLETION_INDEX: str(index)}, **ends}, "status": {"phase": "Running"}}

    document = {"spec": spec, "status": {}, **job}
    return JobView(document, dict(enumerate(ended)), [pod(*one) for one in pods], 1e9)  # type: ignore[arg-type]


@given(SPECS, st.lists(ENDED, max_size=8), PODS)
def test_no_more_pods_than_parallelism_and_no_index_twice(
    spec: dict[str, Any], ended: list[EndedPod], pods: list[tuple[int, bool]]
) -> None:
    seen = view(spec, ended, pods)
    places = seen.missing_pods()
    assert len(seen.active) + len(places) <= max(spec["parallelism"], len(seen.active))
    if seen.indexed:
        active = {int(pod["metadata"]["annotations"][COMPLETION_INDEX]) for pod in seen.active}
        assert len(set(places)) == len(places)
        assert not set(places) & (active | set(seen.done_indexes))
        assert set(places) <= set(range(spec["completions"]))


@given(SPECS, st.lists(ENDED, max_size=8), PODS)
def test_a_reported_verdict_does_not_change(
    spec: dict[str, Any], ended: list[EndedPod], pods: list[tuple[int, bool]]
) -> None:
    verdict = view(spec, ended, pods).verdict()
    if verdict is not None:
        status = status_of(view(spec, ended, pods), verdict, "2026-01-01T00:00:00Z")
        easier = {**spec, "backoffLimit": 100, "completions": 100}
        assert view(easier, [], pods, status=status).verdict() == verdict


@given(st.sets(st.integers(0, 30)))
def test_ranges_contain_exactly_the_given_numbers(numbers: set[int]) -> None:
    found: set[int] = set()
    for part in filter(None, ranges(sorted(numbers)).split(",")):
        first, _, last = part.partition("-")
        assert not last or int(last) >= int(first) + 2
        found |= set(range(int(first), int(last or first) + 1))
    assert found == numbers


def test_the_back_off_doubles_with_each_failure_and_a_success_resets_it() -> None:
    spec = {"completions": 5, "parallelism": 1, "backoffLimit": 9, "completionMode": "NonIndexed"}
    fails = [EndedPod("Failed", None, at) for at in (10.0, 30.0, 70.0)]
    assert [view(spec, fails[:count]).next_start() for count in range(4)] == [0, 20, 50, 110]
    assert view(spec, [*fails, EndedPod("Succeeded", None, 80.0)]).next_start() == 0
    assert view(spec, [EndedPod("Failed", None, 5.0)] * 20).next_start() == 365
