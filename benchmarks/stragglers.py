"""Traces of operations: our slowdowns and causes beside the published ones, to be equal within 1 %.

The traces and answers of ByteDance-Seed/StragglerAnalysis may not be shipped with the project; they are read from
`../shared/stragglers` beside it, as `trace-NAME.parquet`, `result-NAME.json`, `mw-NAME.json` and `ms-NAME.json`.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path[:0] = [str(Path(__file__).parents[1] / "plugins")]

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).parents[2] / "shared" / "stragglers"
AGREE = 0.01


def answers(name: str) -> Iterator[tuple[str, float]]:
    """Yield the published answers about a trace, by our names."""
    result, workers, stage = (_read(f"{kind}-{name}.json") for kind in ("result", "mw", "ms"))
    yield "slowdown", result["blocking_slowdown"]
    yield "ideal_step_seconds", stage["tideal"]
    yield "replayed_step_seconds", stage["tori"]
    yield "share_of_slowest_workers", workers["Mw"]
    yield "share_of_last_stage", stage["Ms"]
    for ours, theirs in (("data_rank", "dp_rank"), ("stage", "stage")):
        for key, value in result[f"blocking_decompose_by_{theirs}"].items():
            yield f"slowdown_by_{ours} {key}", value


def differences(name: str) -> dict[str, tuple[float, float]]:
    """Return our answers and theirs."""
    from ml_metrics.measure.efficiency import explain, read_trace

    ours = explain(read_trace(str(FOLDER / f"trace-{name}.parquet"))).document()
    found = {}
    for answer, theirs in answers(name):
        group, _, key = answer.partition(" ")
        found[answer] = (ours[group][key] if key else ours[group], theirs)
    return found


def _read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((FOLDER / name).read_text())
    return content


def main() -> int:
    """Compare every trace that is there."""
    traces = sorted(FOLDER.glob("trace-*.parquet"))
    if not traces:
        print(f"left out: there is no trace in {FOLDER}")
        return 0
    failed = 0
    for path in traces:
        name = path.stem.removeprefix("trace-")
        started = time.process_time()
        found = differences(name)
        took = time.process_time() - started
        for answer in ("slowdown", "share_of_slowest_workers", "share_of_last_stage"):
            ours, theirs = found[answer]
            print(f"{name} {answer:<26} ours {ours:.4f}  published {theirs:.4f}")
        # shares near 0 are compared by their difference
        worst = max(abs(ours - theirs) / max(abs(theirs), 1) for ours, theirs in found.values())
        failed += worst > AGREE
        print(f"{name}: {len(found)} answers, the furthest from the published one by {worst:.1e}; {took:.2f} s of CPU")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
