"""A program that prints XProf's overview of the given profiles as one line of JSON.

XProf writes files next to the profiles, and many lines to standard error.
"""

from __future__ import annotations

import json
import resource
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


MIB = 1 << 20
MEMORY_BYTES = 32 << 30
"""Address space, of which libraries reserve much more than they use."""
CPU_SECONDS = 1_200
PROGRAM_SUFFIX = ".hlo_proto.pb"


class Pages:
    """XProf's pages about some profiles. A page that it cannot make is empty, and reported in `errors`."""

    def __init__(self, profiles: list[str]) -> None:
        self.profiles = profiles
        self.errors: list[str] = []

    def page(self, tool: str, profiles: list[str] | None = None, **options: str) -> Any:
        from xprof.convert.raw_to_tool_data import xspace_to_tool_data

        try:
            content = xspace_to_tool_data(profiles or self.profiles, tool, options)[0]
            return json.loads(content) if content else {}
        except Exception as error:  # noqa: BLE001  (an error in one page must not affect the others)
            self.errors.append(f"{tool}: {type(error).__name__}: {error}")
            return {}


def overview(profiles: list[str]) -> dict[str, Any]:
    """The numbers and texts of a profile. XProf reports 0 for what was not measured; it is left out here."""
    from xprof.convert.raw_to_tool_data import xspace_to_tool_names

    xspace_to_tool_names(profiles)  # writes the compiled programs to files
    pages = Pages(profiles)
    page = pages.page("overview_page")
    properties = {name: value for table in page for name, value in table.get("p", {}).items()}
    cores = int(properties.get("device_core_count", 0))
    numbers = dict(_steps(page, properties))
    if cores:
        numbers |= {"device_core_count": cores, **dict(_utilization(properties, pages.page("roofline_model")))}
    numbers |= dict(_memory(pages))
    texts = {name: properties[name] for name in ("device_type",) if properties.get(name)}
    return {"numbers": numbers, "texts": texts, "errors": pages.errors}


def _steps(page: list[dict[str, Any]], properties: dict[str, str]) -> Iterator[tuple[str, float]]:
    exact = [row["stepTimeMs"] for table in page for row in _rows(table) if "stepTimeMs" in row]
    mean = statistics.fmean(exact) if exact else float(properties.get("steptime_ms_average") or 0)
    if mean:
        yield "average_step_time_ms", mean


def _utilization(properties: dict[str, str], roofline: list[dict[str, Any]]) -> Iterator[tuple[str, float]]:
    """Yield the utilization of the devices, as percentages of their peaks over the whole profile."""
    table = roofline[0] if roofline else {}
    program = next((row for row in _rows(table) if row["step"] == "Total" and row["operation"] == "Program"), None)
    peaks = {name: float(table.get("p", {}).get(name) or 0) for name in ("peak_flop_rate", "peak_hbm_bw")}
    if program is not None and peaks["peak_flop_rate"]:
        yield "flops_utilization_percent", 100 * program["measured_flop_rate"] / peaks["peak_flop_rate"]
    if program is not None and peaks["peak_hbm_bw"]:
        yield "hbm_bandwidth_utilization_percent", 100 * program["hbm_bw"] / peaks["peak_hbm_bw"]
    busy = float(properties.get("device_duty_cycle_percent", "0").rstrip("%"))
    if busy:
        yield "device_duty_cycle_percent", busy


def _memory(pages: Pages) -> Iterator[tuple[str, float]]:
    """Yield the peak of the allocators, and the planned peak of the largest compiled program."""
    hosts = [pages.page("memory_profile", [profile]) for profile in pages.profiles]
    allocators = [one for host in hosts for one in host.get("memoryProfilePerAllocator", {}).values()]
    held = [float(one.get("profileSummary", {}).get("peakBytesUsageLifetime", 0)) for one in allocators]
    if any(held):
        yield "peak_memory_bytes", max(held)
    programs = [
        path.name.removesuffix(PROGRAM_SUFFIX) for path in Path(pages.profiles[0]).parent.glob(f"*{PROGRAM_SUFFIX}")
    ]
    each = [pages.page("memory_viewer", module_name=program, memory_space="0") for program in programs]
    planned = [one.get("peakHeapMib", 0) for one in each]
    if any(planned):
        yield "peak_program_memory_bytes", max(planned) * MIB


def _rows(table: dict[str, Any]) -> Iterator[dict[str, Any]]:
    names = [column["id"] for column in table.get("cols", [])]
    return (dict(zip(names, (cell["v"] for cell in row["c"]), strict=False)) for row in table.get("rows", []))


def hold() -> None:
    """Let the kernel end this process at its limits, also if the task that waits for it is gone."""
    for what, most in ((resource.RLIMIT_AS, MEMORY_BYTES), (resource.RLIMIT_CPU, CPU_SECONDS)):
        _, allowed = resource.getrlimit(what)
        held = most if allowed == resource.RLIM_INFINITY else min(most, allowed)
        resource.setrlimit(what, (held, held))


if __name__ == "__main__":
    hold()
    print(json.dumps(overview(sys.argv[1:])))  # noqa: T201  (the result)
