"""What is valid in a test file, and only a run would show to be a mistake."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ml_metrics.config.collection import Strategy, TagAggregation
from ml_metrics.config.definition import TestDefinition
from ml_metrics.config.patterns import best_match
from ml_metrics.core.kinds import is_generated
from ml_metrics.core.text import did_you_mean

VARIABLE = re.compile(r"(?<!\$)\$\(([A-Z][A-Z0-9_]*)\)")


def doubts(test: TestDefinition) -> Iterator[str]:
    """What only a run would show: a variable that nothing sets, and a condition on what is not collected."""
    known = {
        *("MODEL_DIR", "ML_METRICS_RUN_DIR", "JOB_NAME", "POD_NAME", "POD_NAMESPACE", "POD_UID"),
        *test.env,
        *test.secrets,
    }
    for name in dict.fromkeys(VARIABLE.findall("\n".join((*test.command, *test.args, *test.env.values())))):
        if name not in known and not name.startswith(("KUBERNETES_", "ML_METRICS_", "OUTPUT_")):
            yield f"{test.source}: nothing sets the variable $({name}){did_you_mean(name, known)}"
    collection = test.metric_collection_config
    own_names = {*collection.metrics, *collection.expressions, *collection.sources.literals}
    for name in test.regression_test_config.metric_success_conditions:
        found = re.fullmatch(f"(?P<tag>.+?)_(?P<strategy>{'|'.join(Strategy)}|mean)", name)
        if not found or "*" in name or name in own_names or is_generated(name):
            continue
        key = best_match(collection.metric_to_aggregation_strategy, found["tag"])
        own = () if key is None else collection.metric_to_aggregation_strategy[key]
        own = own.strategies if isinstance(own, TagAggregation) else own
        collected = [str(one) for one in own or collection.default_aggregation_strategies]
        if found["strategy"] not in collected:
            near = did_you_mean(name, [f"{found['tag']}_{one}" for one in collected])
            yield f"{test.source}: {name}: of {found['tag']}, only {', '.join(collected)} is collected{near}"
