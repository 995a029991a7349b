"""A program: print what XProf says of the profiles that are named, as one line of JSON."""

from __future__ import annotations

import json
import statistics
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

UTILIZATION = {
    "flops_utilization_percent": "flop_rate_utilization_relative_to_roofline",
    "hbm_bandwidth_utilization_percent": "memory_bw_utilization_relative_to_hw_limit",
    "mxu_utilization_percent": "mxu_utilization_percent",
    "device_duty_cycle_percent": "device_duty_cycle_percent",
}
"""Our names of the shares of the hardware that were used, and the overview page's."""


def overview(profiles: list[str]) -> dict[str, Any]:
    """The overview page in numbers and words."""
    from xprof.convert.raw_to_tool_data import xspace_to_tool_data

    page = json.loads(xspace_to_tool_data(profiles, "overview_page", {})[0])
    said = {name: value for table in page for name, value in table.get("p", {}).items()}
    return {"numbers": dict(_numbers(page, said)), "words": {"device_type": said.get("device_type", "")}}


def _numbers(page: list[dict[str, Any]], said: dict[str, str]) -> Iterator[tuple[str, float]]:
    steps = [step for table in page for step in _column(table, "stepTimeMs")]
    if steps:
        yield "average_step_time_ms", statistics.fmean(steps)
    cores = int(said.get("device_core_count", 0))
    if not cores:  # the page then says 0.0% of a device that there is not
        return
    yield "device_core_count", cores
    for name, theirs in UTILIZATION.items():
        if said.get(theirs):
            yield name, float(said[theirs].rstrip("%"))


def _column(table: dict[str, Any], name: str) -> list[float]:
    names = [column["id"] for column in table.get("cols", [])]
    return [row["c"][names.index(name)]["v"] for row in table["rows"]] if name in names else []


if __name__ == "__main__":
    print(json.dumps(overview(sys.argv[1:])))  # noqa: T201  (its purpose)
