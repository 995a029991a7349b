"""Write down what apache-otava finds in the planted series: its answers are compared with ours.

It wants older versions of packages that we pin, so it lives in an environment of its own:

    uv venv .venv-otava && uv pip install -p .venv-otava/bin/python apache-otava==0.8.0
    .venv-otava/bin/python tests/judge/run_otava.py > tests/golden/judge/otava.json
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


def answers() -> dict[str, object]:
    """By its defaults, and with its own least magnitude of 5 %."""
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
    print(json.dumps(answers()))
