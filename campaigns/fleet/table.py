"""The table of docs/scaling.md, from what the waves measured."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from airflow_home import PROJECT
from campaigns.fleet.nights import cost_of, nights
from campaigns.fleet.variants import Variant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from campaigns.fleet.wave import Wave

PAGE = PROJECT / "docs" / "scaling.md"
HEAD = (
    "executor",
    "at once",
    "each run is",
    "CPU s a run",
    "to the lean floor",
    "verdict, s: median, p95",
    "told, s: median, p95",
    "runs per minute",
)
P95 = 0.95
SHOWN = {Variant.GREEN, Variant.RED, Variant.LEAN}
"""The rows of the page; the file of JSON has the others too."""


def table(waves: Sequence[Wave]) -> str:
    """Return the waves as a table in Markdown."""
    lines = [f"| {' | '.join(HEAD)} |", f"|{' --- |' * len(HEAD)}"]
    return "\n".join([*lines, *(f"| {' | '.join(_row(wave, waves))} |" for wave in waves)])


def _row(wave: Wave, waves: Sequence[Wave]) -> tuple[str, ...]:
    floor = next((one for one in waves if _is_like(one, wave, Variant.LEAN, wave.runs)), None)
    return (
        wave.executor,
        str(wave.runs) if wave.ended == wave.runs else f"{wave.runs}, of which {wave.ended} ended",
        wave.variant,
        f"{wave.cpu_of_run:.2f}" if wave.runs > 1 else "",  # of one run, most is what Airflow does anyway
        f"{wave.cpu_of_run / floor.cpu_of_run:.2f}" if floor and wave.runs > 1 else "",
        times(wave.verdict),
        times(wave.told),
        f"{60 * wave.ended / wave.wall:.0f}",
    )


def _is_like(one: Wave, wave: Wave, variant: Variant, runs: int) -> bool:
    return (one.executor, one.variant, one.runs) == (wave.executor, variant, runs)


def times(seconds: Sequence[float]) -> str:
    """Return the median and the 95th percentile."""
    return f"{median(seconds):.1f}, {quantile(seconds):.1f}" if seconds else ""


def quantile(values: Sequence[float], share: float = P95) -> float:
    """Return the least of the values that is not below this share of them."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def documents(waves: Sequence[Wave], machine: str) -> dict[str, Any]:
    """Return everything that was measured, for a file of JSON."""
    return {"machine": machine, "waves": [asdict(one) | {"cpu_of_run": one.cpu_of_run} for one in waves]}


def write(waves: Sequence[Wave], machine: str, results: Path) -> None:
    """Write the file of JSON, and the table into the page."""
    results.parent.mkdir(parents=True, exist_ok=True)
    results.write_text(json.dumps(documents(waves, machine), indent=2) + "\n")


def write_page(waves: Sequence[Wave], machine: str) -> None:
    """Replace the tables of the page. A wave that the end of the time has cut off says nothing about a run."""
    waves = [wave for wave in waves if wave.ended == wave.runs and wave.variant in SHOWN]
    _replace("fleet", f"{machine} {idle(waves)}\n\n{table(waves)}")
    if cost := cost_of(waves):
        _replace("nights", nights(cost))


def idle(waves: Sequence[Wave]) -> str:
    """Return what an Airflow costs in which nothing runs."""
    cores = {wave.executor: wave.idle for wave in waves}
    return f"An idle Airflow uses {', '.join(f'{one:.2f} cores ({executor})' for executor, one in cores.items())}."


def _replace(name: str, content: str) -> None:
    """Replace what is between two marks of the page."""
    block = f"<!-- {name} -->\n{content}\n<!-- /{name} -->"
    PAGE.write_text(re.sub(f"<!-- {name} -->.*<!-- /{name} -->", lambda _: block, PAGE.read_text(), flags=re.DOTALL))
