"""Print the change points that apache-otava finds in the series on standard input.

It runs in an environment of its own, which has apache-otava.
"""

from __future__ import annotations

import json
import sys

from otava.analysis import compute_change_points

if __name__ == "__main__":
    asked = json.load(sys.stdin)
    found = [[int(point.index) for point in compute_change_points(values)[0]] for values in asked]
    json.dump(found, sys.stdout)
