"""The cost of one run and its use of its chips, on its page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.kinds import cost_in, cost_metric, kind_of
from ml_metrics.money import CURRENCIES, money, units_of
from ml_metrics.units import readable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ml_metrics.warehouse import JobRow, Warehouse

FIGURES = {"chip_hours": "chip hours", "mfu": "MFU", "hfu": "HFU", "tokens_per_second": "tokens/s"}
FORMULA, PRICES = "mfu.formula", "cost.prices"


def cost_of_run(warehouse: Warehouse, run: JobRow, metadata: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the known figures about the cost and the utilisation of a run, with their names."""
    names = [*FIGURES, *map(cost_metric, CURRENCIES)]
    stored = warehouse.metrics.named_of_run(run.place, names)
    found = []
    for name, row in stored.items():
        if row.value is None:
            continue
        cost = cost_in(name)
        if cost is not None:
            shown = [money(units_of(row.value, cost[0]), cost[0]), metadata.get(PRICES, "")]
            found.append(("cost", ": ".join(filter(None, shown))))
        else:
            formula = metadata.get(FORMULA, "") if name == "mfu" else ""
            number = readable([row.value], "" if name == "chip_hours" else kind_of(name).unit)[0]
            found.append((FIGURES[name], f"{number}{f' ({formula})' if formula else ''}"))
    return sorted(found)
