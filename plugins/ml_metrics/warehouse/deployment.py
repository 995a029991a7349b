"""The filter of a deployment: Airflow deployments that share a warehouse read nothing of each other.

`Database` binds `:deployment` in each statement that has it.
"""

from __future__ import annotations


def of_deployment(alias: str = "") -> str:
    """Return the condition that selects the rows of a deployment, for a table with an alias.

    The rows of older versions have no deployment. They belong to every deployment until one claims them.
    """
    column = f"{alias}.deployment" if alias else "deployment"
    return f"({column} = :deployment OR {column} IS NULL)"


OF_DEPLOYMENT = of_deployment()
