"""What a run cost and made of its accelerators: price, MFU, stragglers, slow nodes."""

from typing import TYPE_CHECKING

from ml_metrics.core.lazy import on_first_use

if TYPE_CHECKING:
    from ml_metrics.measure.efficiency.cost import (
        CHIP_HOURS,
        COST,
        NO_BOOK,
        UnknownCostError,
        as_metrics,
        chips_of,
        measure_efficiency,
        offer_of,
        reasons_for,
    )
    from ml_metrics.measure.efficiency.mfu import Figures
    from ml_metrics.measure.efficiency.nodes import NodeEffect, NodeRun, node_effects
    from ml_metrics.measure.efficiency.prices import Billed, configured_book, read_billing
    from ml_metrics.measure.efficiency.regressions import (
        NOT_A_TIME,
        REGRESSION_DAYS,
        REGRESSION_METADATA,
        UNKNOWN_COST,
        added_costs,
        cost_words,
        largest_cost,
        more_seconds,
        short_cost,
        unknown_steps,
        weekly_costs,
    )
    from ml_metrics.measure.efficiency.stragglers import Explanation, Trace, explain, read_trace
    from ml_metrics.measure.efficiency.weeks import (
        Bill,
        RunCost,
        added_up,
        bill_of,
        bills_by,
        csv_rows,
        run_costs,
        troubles_of,
        words_of,
    )

__getattr__ = on_first_use(__name__)
