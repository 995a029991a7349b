"""Merging a person's own words about a pod over ours."""

from __future__ import annotations

from typing import Any


def merged(base: Any, over: Any) -> Any:
    """The base with everything that the other says.

    Mappings are merged key by key, and null takes a key away. Lists of things with names (containers, volumes,
    variables) are merged by name, others are replaced: what Kubernetes itself does with most of them.
    """
    if isinstance(base, dict) and isinstance(over, dict):
        both = {key: merged(base[key], value) if key in base else value for key, value in over.items()}
        return {key: value for key, value in {**base, **both}.items() if value is not None}
    if isinstance(base, list) and isinstance(over, list) and _have_names([*base, *over]):
        by_name = {item["name"]: item for item in base}
        for item in over:
            by_name[item["name"]] = merged(by_name.get(item["name"], {}), item)
        return list(by_name.values())
    return over


def _have_names(items: list[Any]) -> bool:
    return all(isinstance(item, dict) and "name" in item for item in items)
