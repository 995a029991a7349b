"""Print the change points that apache-otava finds in the planted series, for comparison with ours.

It needs older versions of pinned packages, so it runs in its own environment:

    uv venv .venv-otava && uv pip install -p .venv-otava/bin/python apache-otava==0.8.0
    .venv-otava/bin/python tests/unit/judge/run_otava.py > tests/golden/judge/otava.json
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from otava.analysis import compute_change_points
from planted import series

SEEDS = range(20)


def results() -> dict[str, object]:
    """Return the results with defaults, and with a minimum magnitude of 5 %."""
    return {
        "apache-otava": version("apache-otava"),
        "default": {str(seed): _found(seed) for seed in SEEDS},
        "min_magnitude": {str(seed): _found(seed, min_magnitude=0.05) for seed in SEEDS},
    }


def _found(seed: int, **options: float) -> dict[str, list[int]]:
    return {
        each.kind: [int(point.index) for point in compute_change_points(each.values, **options)[0]]
        for each in series(seed)
    }


if __name__ == "__main__":
    print(json.dumps(results()))
