"""Goodput traces: entries written by hand, and at random."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

JOB = "job"


def entry(field: str, time: float, **more: Any) -> dict[str, Any]:
    return {"job_name": JOB, **more, field: float(time)}


def job_start(time: float) -> list[dict[str, Any]]:
    return [entry("job_start_time", time)]


def job_end(time: float) -> list[dict[str, Any]]:
    return [entry("job_end_time", time)]


def steps(first: int, last: int, start: float, *, each: float = 10.0, every: int = 1) -> list[dict[str, Any]]:
    """The starts of steps; `every` of them is logged."""
    return [
        {"job_name": JOB, "step_count": step, "step_start_time": float(start + (step - first) * each)}
        for step in range(first, last + 1, every)
    ]


def span(kind: str, start: float, end: float) -> list[dict[str, Any]]:
    """The start and the end of `tpu_init`, `training_prep`, `data_loading` or `elastic_reinit`."""
    return [entry(f"{kind}_start_time", start), entry(f"{kind}_end_time", end)]


def custom(name: str, start: float, end: float) -> list[dict[str, Any]]:
    kind = {"custom_badput_event_type": name}
    return [
        entry("custom_badput_event_start_time", start, **kind),
        entry("custom_badput_event_end_time", end, **kind),
    ]


def save(step: int, start: float | None, seconds: float, *, directory: str = "gs://bucket/run") -> list[dict[str, Any]]:
    """What Orbax logs when a save is over."""
    return [
        {
            "job_name": JOB,
            "step": step,
            "event_type": "save",
            "directory": directory,
            "wait_for_prev_start_time": start,
            "wait_for_prev_duration_secs": 0.0,
            "checkpointer_blocking_start_time": start,
            "checkpointer_blocking_duration_secs": seconds,
            "get_old_steps_start_time": start,
            "get_old_steps_duration_secs": 0.0,
            "checkpoint_manager_blocking_start_time": start,
            "checkpoint_manager_blocking_duration_secs": seconds,
        }
    ]


def restore(step: int, start: float | None, seconds: float) -> list[dict[str, Any]]:
    return [
        {
            "job_name": JOB,
            "step": step,
            "event_type": "restore",
            "directory": "gs://bucket/run",
            "checkpointer_start_time": start,
            "checkpointer_duration_secs": seconds,
            "checkpoint_manager_start_time": start,
            "checkpoint_manager_duration_secs": seconds,
        }
    ]


def in_time(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The entries as a log holds them: by their times, a save or restore when it is over."""

    def moment(payload: dict[str, Any]) -> float:
        if "event_type" in payload:
            names = ("checkpoint_manager_blocking", "checkpoint_manager")
            name = next(name for name in names if f"{name}_duration_secs" in payload)
            return float(payload[f"{name}_start_time"] + payload[f"{name}_duration_secs"])
        return next(value for key, value in payload.items() if "time" in key)

    return sorted(entries, key=moment)


seconds = st.integers(1, 400).map(lambda tenths: tenths / 8)
"""Durations that add up without rounding."""


@st.composite
def wild_traces(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Anything that keeps the schema, in any order: what a broken program may write."""
    time = st.integers(0, 4000).map(lambda eighths: 1.7e9 + eighths / 8)
    kinds = st.sampled_from(
        [
            "job",
            "tpu_init",
            "training_prep",
            "data_loading",
            "custom_badput_event",
            "step",
            "step",
            "step",
            "save",
            "restore",
        ]
    )
    trace = job_start(draw(time))
    clock = trace[0]["job_start_time"]
    for _ in range(draw(st.integers(0, 40))):
        clock = max(
            0.0, clock + draw(st.one_of(seconds, seconds, seconds, st.just(0.0), seconds.map(lambda one: -one)))
        )
        kind = draw(kinds)
        edge = draw(st.sampled_from(["start", "end"]))
        if kind == "step":
            trace.append({"job_name": JOB, "step_count": draw(st.integers(0, 8)), "step_start_time": clock})
        elif kind == "save":
            trace += save(
                draw(st.integers(0, 3)), clock, draw(seconds), directory=draw(st.sampled_from(["gs://b", "/tmp"]))
            )
        elif kind == "restore":
            trace += restore(draw(st.integers(0, 3)), clock, draw(seconds))
        elif kind == "custom_badput_event":
            name = draw(st.sampled_from(["eval", "Eval", "check"]))
            trace.append(entry(f"{kind}_{edge}_time", clock, custom_badput_event_type=name))
        else:
            trace.append(entry(f"{kind}_{edge}_time", clock))
    return trace
