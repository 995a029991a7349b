"""Two teams and their test files: one means well, the other does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

INNOCENT, HOSTILE = "innocent", "hostile"
OWNER = "team-of-the-innocent"
HERE = Path(__file__).parent
KINDS = ("good", "bad", "good", "dead", "good", "good")
"""How the innocent team's runs end, again and again: a metric out of bounds, and a workload that fails."""
ACTS = ("links", "forgeries", "flood", "noise", "wander")
"""What the hostile team's runs do. A run clears itself up for nothing: the next one has its own folder."""


def innocent() -> dict[str, Any]:
    conditions = {
        "loss_final": {"comparison": "less", "success_threshold": {"fixed_value": 0.5}},
        "accuracy_final": {"comparison": "greater", "success_threshold": {"percent_difference": {"percent": 10}}},
    }
    return {
        "command": ["python3", "-c", source("innocent_workload")],
        "env": {"RUN": "{{ run_id }}"},
        "owner": OWNER,
        "emails": ["innocent@example.com"],
        # a short pod may end before its memory is sampled, and no two runs use the same
        "metric_collection_config": {"sources": {"memory": False}},
        "regression_test_config": {"required_metrics": ["loss_final"], "metric_success_conditions": conditions},
    }


def hostile() -> dict[str, Any]:
    """The same owner: nobody checks who says so."""
    conditions = {"loss_final": {"comparison": "greater", "success_threshold": {"fixed_value": 0.5}}}
    return {
        "command": ["python3", "-c", source("hostile_workload")],
        "env": {"RUN": "{{ run_id }}"},
        "owner": OWNER,
        "emails": ["hostile@example.com"],
        "timeout": "3m",
        "regression_test_config": {"required_metrics": ["loss_final"], "metric_success_conditions": conditions},
    }


def source(name: str) -> str:
    return (HERE / f"{name}.py").read_text()


def hostile_files() -> dict[str, str]:
    """Test files of the hostile team, by their names. None of them may take another test's DAG away."""
    head = "image: local/image:1\ncommand: ['true']\nowner: hostile-team\n"
    merges = "\n".join(f"x{n}: &x{n} {{<<: [{', '.join([f'*x{n - 1}'] * 10)}]}}" for n in range(1, 12))
    return {
        "long-tag.yaml": f"name: long-tag\n{head}tags: [{'t' * 120}]\n",
        "pattern.yaml": f"name: pattern\n{head}schedule: '@daily'\nparams: {{p: {{default: abc, pattern: '^z$'}}}}\n",
        "slow-pattern.yaml": f"name: slow-pattern\n{head}params: {{p: {{default: {'a' * 40}, pattern: '^(a+)+$'}}}}\n",
        "retries.yaml": f"name: retries\n{head}retries: 10000000000000\n",
        "merges.yaml": f"x0: &x0 {{a: 1}}\n{merges}\nname: merges\n{head}",
        "loop.jsonnet": "local f(n) = if n == 0 then 0 else f(n - 1) + f(n - 1); {name: 'loop', image: '' + f(60)}",
        "digest.yaml": f"name: ml-metrics-digest\n{head}",
        "secret.yaml": f"name: secret\n{head}env: {{X: '{{{{ conn.smtp_default.password }}}}'}}\n",
        "nested.json": "[" * 50_000,
        "binary.yaml": "\x00\x01\x02",
    }
