"""The step times of a run's hosts, as its goodput document has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ml_metrics.charts.hosts import host_chart
from ml_metrics.errors import MlMetricsError
from ml_metrics.goodput.host_map import MAX_COLUMNS, MAX_HOSTS

if TYPE_CHECKING:
    from ml_metrics.run_folder import RunFolder


@dataclass(frozen=True, slots=True)
class ShownHosts:
    """What the page of a run shows about its hosts."""

    summary: str = ""
    left_out: int = 0
    chart: dict[str, Any] | None = None
    map: dict[str, Any] | None = None


def hosts_of(folder: RunFolder | None) -> ShownHosts:
    """Return the hosts of a run. A document that is missing or damaged, or of an older version, has none to show."""
    try:
        report = (folder.read("goodput") or {}) if folder else {}
        found = report.get("host_step_times") or {}
        drawn = found["map"]
        hosts, steps, percent = drawn["hosts"], drawn["first_steps"], drawn["percent"]
        if len(hosts) > MAX_HOSTS or len(steps) > MAX_COLUMNS:
            return ShownHosts()
        chart = host_chart([str(name) for name in hosts], [int(one) for one in steps],
                           [[float(value) for value in row] for row in percent])  # fmt: skip
        return ShownHosts(str(found["summary"]), int(drawn["hosts_left_out"]), chart, drawn)
    except (MlMetricsError, OSError, AttributeError, KeyError, TypeError, ValueError):
        return ShownHosts()
