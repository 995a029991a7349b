r"""LightGBM and XGBoost: `[1]\ttrain's l2: 0.5\tvalid's auc: 0.8`, and `[0]\ttrain-rmse:0.5\tvalid-rmse:0.6`."""

from __future__ import annotations

import re

from ml_metrics.measure.readers.log_profile import Profile, Reading, number

ROUND = re.compile(r"\[(?P<step>\d{1,9})\]\t(?P<values>.+)")
VALUE = re.compile(
    r"(?P<data>[^\t:]+?)(?:'s (?P<of_lightgbm>[^\t:]+): |-(?P<of_xgboost>[^\t:-]+(?:@\d+-?)?):)(?P<value>\S+)"
)


def read(line: str) -> Reading | None:
    """Read a round. A value may have its deviation behind it, as cross-validation prints it."""
    found = ROUND.search(line)
    if found is None:
        return None
    values = {}
    for part in found["values"].split("\t"):
        one = VALUE.match(part)
        value = number(one["value"].partition("+")[0]) if one else None
        if one and value is not None:
            values[f"{one['data']}/{one['of_lightgbm'] or one['of_xgboost']}"] = value
    return Reading(int(found["step"]), values) if values else None


PROFILE = Profile(
    "boosting",
    "LightGBM and XGBoost",
    (b"]\t",),
    lambda: read,
    {
        "[1]\ttrain's l2: 2.07761\tvalid's l1: 0.938996": Reading(1, {"train/l2": 2.07761, "valid/l1": 0.938996}),
        "[0]\ttrain-rmse:0.50\teval-rmse:0.61": Reading(0, {"train/rmse": 0.5, "eval/rmse": 0.61}),
    },
)
