"""Random logs of orderly jobs, which do not trigger the older library's faults."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from unit.measure.goodput.traces import JOB, custom, entry, in_time, restore, save, seconds, span

Draw = st.DrawFn


@dataclass
class Job:
    """A job that is being generated."""

    draw: Draw
    restarts: int
    loads: bool
    time: float
    entries: list[dict[str, Any]] = field(default_factory=list)

    def pass_time(self) -> float:
        start = self.time
        self.time += self.draw(seconds)
        return start

    def set_up(self) -> None:
        """Add the entries from the start of the job to its first step, without overlaps."""
        self.entries.append(entry("job_start_time", self.time))
        for kind in ("tpu_init", "training_prep", "data_loading"):
            if self.loads if kind == "data_loading" else self.draw(st.booleans()):
                self.pass_time()
                self.entries += span(kind, self.pass_time(), self.time)
        if self.draw(st.booleans()):
            self.pass_time()
            start = self.pass_time()
            self.entries += restore(len(self.entries), start, self.time - start)
        self.pass_time()

    def train(self, first: int, last: int, *, survives: int, ends: bool) -> None:
        """Add steps, with events inside the steps that count."""
        each = self.draw(st.integers(8, 80)) / 4
        for step in range(first, last + 1):
            self.entries.append({"job_name": JOB, "step_count": step, "step_start_time": self.time})
            start, self.time = self.time, self.time + each + (self.draw(seconds) if step == first else 0.0)
            self.time += self.draw(st.sampled_from([0.0, 0.0, 0.25, 1.5, 7.0]))
            if first < step < survives and step < last:
                self._add_events(start, step)
        if not ends:
            self.time -= 1.0  # the last step is never completed

    def _add_events(self, start: float, step: int) -> None:
        what = self.draw(st.sampled_from(["nothing", "nothing", "eval", "save", "both"]))
        length = (self.time - start) / 4
        if what in {"eval", "both"}:
            self.entries += custom(self.draw(st.sampled_from(["eval", "check"])), start, start + length)
        if what in {"save", "both"}:
            store = self.draw(st.sampled_from(["gs://bucket", "/local"]))
            self.entries += save(step, start + 2 * length, length, directory=store)
        if self.loads and self.restarts == 0 and self.draw(st.booleans()):
            self.entries += span("data_loading", start + 3 * length, self.time)


@st.composite
def orderly_jobs(draw: Draw) -> list[dict[str, Any]]:
    """A job with up to four restarts, each at a step of the segment before it."""
    restarts = draw(st.integers(0, 4))
    loads = restarts < 2 and draw(st.booleans())
    job = Job(draw, restarts, loads, 1.7e9)
    first = draw(st.integers(0, 3))
    for segment in range(restarts + 1):
        job.set_up()
        last = first + draw(st.integers(0, 12)) + (1 if first == 0 else 0)
        again = draw(st.integers(max(1, first), last))
        final = segment == restarts
        ends = final and draw(st.booleans())
        job.train(first, last, survives=last if final else again, ends=ends)
        if ends:
            job.entries.append(entry("job_end_time", job.time))
        elif not final:
            job.pass_time()
        first = again
    return in_time(job.entries)
