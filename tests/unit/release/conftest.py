"""The programs that make a release are a package in the project's folder, which is not on the path of tests."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[3]))
