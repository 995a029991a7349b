"""What Airflow knows about this package as a provider: its operators, its hook, and every option of its settings."""

from __future__ import annotations

import ast
from dataclasses import fields
from pathlib import Path
from typing import Any

from ml_metrics.core import settings

VERSION_ADDED = "0.1.0"
"""Of every option, as long as there is one version."""
NAME = "ML Metrics"
OPERATORS = "ml_metrics.airflow.operators"
MODULES = ("chosen_operator", "experiments", "gke", "run_workload", "tasks", "wait_for_decision")
SECRET = frozenset({"documents_key"})
"""The options that Airflow masks, and reads from a command or a secrets backend too."""


def get_provider_info() -> dict[str, Any]:
    """Return the description that the entry point `apache_airflow_provider` promises."""
    return {
        "package-name": "airflow-provider-ml-metrics",
        "name": NAME,
        "description": "Accelerator tests as Airflow DAGs: measured, judged against their history, recorded once.",
        "integrations": [{"integration-name": NAME, "tags": ["software"]}],
        "operators": [
            {
                "integration-name": NAME,
                "python-modules": [f"{OPERATORS}.{module}" for module in MODULES],
            }
        ],
        "triggers": [
            {
                "integration-name": NAME,
                "python-modules": [f"{OPERATORS}.answer_trigger", f"{OPERATORS}.pod_trigger"],
            }
        ],
        "hooks": [{"integration-name": NAME, "python-modules": [f"{OPERATORS}.cluster"]}],
        "config": {settings.SECTION: {"description": "Settings of ML Metrics.", "options": options()}},
    }


def options() -> dict[str, dict[str, Any]]:
    about = descriptions()
    return {
        field.name: {
            "description": f"{about[field.name]}\n",
            "version_added": VERSION_ADDED,
            "type": "string",
            "example": None,
            "default": field.default,
            **({"sensitive": True} if field.name in SECRET else {}),
        }
        for field in fields(settings.Settings)
    }


def descriptions() -> dict[str, str]:
    """Return the text about each setting, in one line: the docstring below its field, which only the source has."""
    source = ast.parse(Path(settings.__file__).read_text(encoding="utf-8"))
    (record,) = (node for node in source.body if isinstance(node, ast.ClassDef) and node.name == "Settings")
    return {
        field.target.id: " ".join(ast.literal_eval(text.value).split())
        for field, text in zip(record.body, record.body[1:], strict=False)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr)
    }
