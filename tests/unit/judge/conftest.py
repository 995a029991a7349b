"""Tests of the benchmarks' own parts import them as the benchmarks do."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))
