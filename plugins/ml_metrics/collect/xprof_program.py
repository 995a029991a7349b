"""A program: print what XProf says of the profiles that are named, as one line of JSON.

It writes files of its own beside the profiles, and much onto standard error.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB = 1 << 20
PROGRAM = ".hlo_proto.pb"
"""How XProf's files of the programs that ran end."""


class Pages:
    """XProf's pages about some profiles. One that it cannot make is empty, and told."""

    def __init__(self, profiles: list[str]) -> None:
        self.profiles = profiles
        self.troubles: list[str] = []

    def page(self, tool: str, profiles: list[str] | None = None, **options: str) -> Any:
        """A page about all profiles, or some of them."""
        from xprof.convert.raw_to_tool_data import xspace_to_tool_data

        try:
            content = xspace_to_tool_data(profiles or self.profiles, tool, options)[0]
            return json.loads(content) if content else {}
        except Exception as error:  # noqa: BLE001  (whatever goes wrong in it, there are other pages)
            self.troubles.append(f"{tool}: {type(error).__name__}: {error}")
            return {}


def overview(profiles: list[str]) -> dict[str, Any]:
    """What is told of a profile, in numbers and in words. What was not measured is not there, where XProf says 0."""
    from xprof.convert.raw_to_tool_data import xspace_to_tool_names

    xspace_to_tool_names(profiles)  # writes the programs
    pages = Pages(profiles)
    page = pages.page("overview_page")
    said = {name: value for table in page for name, value in table.get("p", {}).items()}
    cores = int(said.get("device_core_count", 0))
    numbers = dict(_steps(page, said))
    if cores:
        numbers |= {"device_core_count": cores, **dict(_utilization(said, pages.page("roofline_model")))}
    numbers |= dict(_memory(pages))
    words = {name: said[name] for name in ("device_type",) if said.get(name)}
    return {"numbers": numbers, "words": words, "troubles": pages.troubles}


def _steps(page: list[dict[str, Any]], said: dict[str, str]) -> Iterator[tuple[str, float]]:
    exact = [step for table in page for step in _column(table, "stepTimeMs")]
    mean = statistics.fmean(exact) if exact else float(said.get("steptime_ms_average") or 0)
    if mean:
        yield "average_step_time_ms", mean


def _utilization(said: dict[str, str], roofline: list[dict[str, Any]]) -> Iterator[tuple[str, float]]:
    """Shares of what the device can do, over the whole profile."""
    table = roofline[0] if roofline else {}
    program = next((row for row in _rows(table) if row["step"] == "Total" and row["operation"] == "Program"), None)
    peaks = {name: float(table.get("p", {}).get(name) or 0) for name in ("peak_flop_rate", "peak_hbm_bw")}
    if program is not None and peaks["peak_flop_rate"]:
        yield "flops_utilization_percent", 100 * program["measured_flop_rate"] / peaks["peak_flop_rate"]
    if program is not None and peaks["peak_hbm_bw"]:
        yield "hbm_bandwidth_utilization_percent", 100 * program["hbm_bw"] / peaks["peak_hbm_bw"]
    busy = float(said.get("device_duty_cycle_percent", "0").rstrip("%"))
    if busy:
        yield "device_duty_cycle_percent", busy


def _memory(pages: Pages) -> Iterator[tuple[str, float]]:
    """The most that allocators held, and the most that one compiled program is made to hold."""
    hosts = [pages.page("memory_profile", [profile]) for profile in pages.profiles]
    allocators = [one for host in hosts for one in host.get("memoryProfilePerAllocator", {}).values()]
    held = [float(one.get("profileSummary", {}).get("peakBytesUsageLifetime", 0)) for one in allocators]
    if any(held):
        yield "peak_memory_bytes", max(held)
    programs = [path.name.removesuffix(PROGRAM) for path in Path(pages.profiles[0]).parent.glob(f"*{PROGRAM}")]
    each = [pages.page("memory_viewer", module_name=program, memory_space="0") for program in programs]
    planned = [one.get("peakHeapMib", 0) for one in each]
    if any(planned):
        yield "peak_program_memory_bytes", max(planned) * MIB


def _rows(table: dict[str, Any]) -> Iterator[dict[str, Any]]:
    names = [column["id"] for column in table.get("cols", [])]
    return (dict(zip(names, (cell["v"] for cell in row["c"]), strict=False)) for row in table.get("rows", []))


def _column(table: dict[str, Any], name: str) -> list[float]:
    return [row[name] for row in _rows(table) if name in row]


if __name__ == "__main__":
    print(json.dumps(overview(sys.argv[1:])))  # noqa: T201  (its purpose)
