"""Judge the series on standard input by apache-otava, run by run, and print which runs report a change for the worse.

A change is reported once: a place within `NEAR` runs of one that was reported before is the same change. The newest
`LONGEST` values are searched.
"""

from __future__ import annotations

import json
import sys

from otava.analysis import compute_change_points

NEAR = 5
LONGEST = 100


def reports(values: list[float], options: dict[str, float]) -> list[bool]:
    """Return for each run whether it reports a change for the worse."""
    reported: list[int] = []
    flags = []
    for end in range(1, len(values) + 1):
        first = max(0, end - LONGEST)
        points, _ = compute_change_points(values[first:end], **options)
        worse = [first + int(point.index) for point in points if point.stats.mean_2 > point.stats.mean_1]
        new = [place for place in worse if all(abs(place - other) > NEAR for other in reported)]
        reported += new
        flags.append(bool(new))
    return flags


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    json.dump([reports(values, asked["options"]) for values in asked["series"]], sys.stdout)
