"""Show the curves of a test over a load, a size or another setting: all of a run, or one of them beside those of the
runs before. In the picture, o is the run, = the range of the earlier runs and | their median; the scale is logarithmic
if the values differ much.

examples:
  ml-metrics curve serving-cpu
  ml-metrics curve serving-cpu median_ttft_ms --run 2f6b3e1c --json
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from ml_metrics.core.model import BROKEN, SWEEP, JobStatus, StoredMetric, Sweep
from ml_metrics.core.text import counted, did_you_mean, printable
from ml_metrics.core.units import quantity
from ml_metrics.ui.cli.arguments import Arguments, Parser, UsageError, add_value, whole_number
from ml_metrics.ui.cli.chosen_warehouse import add_warehouse, open_chosen, require_test
from ml_metrics.ui.cli.output import give, minute, sparkline, table
from ml_metrics.warehouse import JobRow, Warehouse

PICTURE = 32


def add_arguments(parser: Parser) -> None:
    add_value(parser, "test", "TEST", "the name of the test")
    add_value(parser, "curve", "CURVE", "default: all, a line for each", nargs="?")
    add_value(parser, "--run", "RUN", "the run key, or how it begins; default: the newest with curves")
    add_value(parser, "--limit", "N", "earlier runs; default: %(default)s", whole_number(1, 1000),
              default=20)  # fmt: skip
    add_warehouse(parser)


def run(arguments: Arguments) -> int:
    with open_chosen(arguments) as warehouse:
        found = _run_of(warehouse, arguments)
        if found is None:
            none = "the newest runs have no curve; docs/curves.md names the files that are read as curves"
            give(arguments, {"test": arguments.test, "run_key": None, "curves": []}, [none])
            return 1
        job, sweeps, earlier = found
        verdicts = {
            row.metric: row for row in warehouse.metrics.of_runs(job.test_name, {job.uuid: job.timestamp})[job.uuid]
        }
        if arguments.curve is None:
            overview = {"test": job.test_name, "run_key": job.uuid, "curves": [one.document() for one in sweeps]}
            give(arguments, overview, _overview(job, sweeps, verdicts))
            return 0
        chosen = next((one for one in sweeps if one.name == arguments.curve), None)
        if chosen is None:
            near = did_you_mean(arguments.curve, [one.name for one in sweeps])
            raise UsageError(f"run {job.uuid[:8]} of {job.test_name} has no curve {arguments.curve!r}{near}")
        good = [one for one in earlier if one.job_status == JobStatus.SUCCESS and not one.trial]
        ends = {one.uuid: one.timestamp for one in good}
        read = warehouse.curves.sweeps_of_runs(list(ends), [chosen.name], tests=[job.test_name], ends=ends)
        past = {run: one for (run, _), one in read.items() if one.x_name == chosen.x_name}
    verdict = verdicts.get(f"{SWEEP}{chosen.name}")
    document: dict[str, Any] = {
        "test": job.test_name,
        "run_key": job.uuid,
        "verdict": None if verdict is None else verdict.outcome,
        "curve": chosen.document(),
        "earlier": [{"run_key": key, **one.document()} for key, one in past.items()],
    }
    give(arguments, document, _picture(job, chosen, list(past.values()), verdict))
    return 0


def _run_of(warehouse: Warehouse, arguments: Arguments) -> tuple[JobRow, list[Sweep], list[JobRow]] | None:
    """The chosen run with its curves, and the runs before it; None if there is none."""
    jobs = warehouse.runs.newest(arguments.test, arguments.limit + 20, trials=arguments.run is not None)
    if not jobs:
        require_test(warehouse, arguments.test)
    for at, job in enumerate(jobs):
        if arguments.run is not None and not job.uuid.startswith(arguments.run):
            continue
        if sweeps := warehouse.curves.sweeps_of(job.place):
            return job, sweeps, jobs[at + 1 : at + 1 + arguments.limit]
    return None


def _overview(job: JobRow, sweeps: Sequence[Sweep], verdicts: Mapping[str, StoredMetric]) -> Iterator[str]:
    yield f"run {job.uuid[:8]} of {minute(job.timestamp)}, {counted(len(sweeps), 'curve')}\n"
    rows = []
    for one in sweeps:
        points = one.measured
        ends = f"{min(points):g} to {max(points):g}" if points else "-"
        verdict = verdicts.get(f"{SWEEP}{one.name}")
        said = verdict.verdict_text if verdict else "-"
        curve = sparkline(list(points.values()), 20)
        rows.append((printable(one.name), printable(one.x_name), ends, curve, printable(one.unit) or "-", said))
    yield table(("curve", "over", "from", "", "unit", "verdict"), rows)


def _picture(job: JobRow, sweep: Sweep, past: Sequence[Sweep], verdict: StoredMetric | None) -> Iterator[str]:
    points, before = sweep.measured, [one.measured for one in past]
    beside = f"beside {counted(len(past), 'run')} before"
    yield f"{printable(sweep.name)} of run {job.uuid[:8]}, {minute(job.timestamp)}, {beside}"
    if verdict is not None:
        rule = f"; {printable(verdict.rule)}" if verdict.rule else ""
        broken = " (alerts)" if verdict.outcome in BROKEN else ""
        yield f"verdict: {verdict.verdict_text}{broken}, {quantity(verdict.value, '%')} of the runs before{rule}"
    yield ""
    known = {x: [each[x] for each in before if x in each] for x in points}
    every = [*points.values(), *(y for ys in known.values() for y in ys)]
    low, high = min(every, default=0.0), max(every, default=0.0)
    scale = math.log if low > 0 and high / low >= 10 else float
    first, width = scale(low), scale(high) - scale(low)

    def place(value: float) -> int:
        return round((scale(value) - first) / width * (PICTURE - 1)) if width > 0 else 0

    marks = {point.x: point.mark for point in sweep.points if point.mark}
    rows = []
    for x, y in points.items():
        ys = known[x]
        middle = median(ys) if ys else None
        change = f"{100 * (y / middle - 1):+.1f} %" if middle else "-"
        cells: list[Any] = [" "] * PICTURE
        if middle is not None:
            for at in range(place(min(ys)), place(max(ys)) + 1):
                cells[at] = "="
            cells[place(middle)] = "|"
        cells[place(y)] = "o"
        shown = (f"{x:g}", quantity(y, sweep.unit), "-" if middle is None else quantity(middle, sweep.unit), change)
        rows.append((*shown, "".join(cells).rstrip(), marks.get(x, "")))
    yield table((printable(sweep.x_name), "value", "median", "change", "", ""), rows, right=(0, 1, 2, 3))
    missing = sorted({x for each in before for x in each} - set(points))
    if missing:
        yield f"\nnot measured in this run: {', '.join(f'{x:g}' for x in missing[:20])}"
