"""Merging the `pod` overrides of a test into the generated pod."""

from __future__ import annotations

from typing import Any


def merged(base: Any, override: Any) -> Any:
    """Return the base with the override merged into it.

    Mappings are merged key by key, and null removes a key. Lists of named objects (containers, volumes, variables) are
    merged by name and other lists are replaced, mostly like a strategic merge patch of Kubernetes.
    """
    if isinstance(base, dict) and isinstance(override, dict):
        both = {key: merged(base[key], value) if key in base else value for key, value in override.items()}
        return {key: value for key, value in {**base, **both}.items() if value is not None}
    if isinstance(base, list) and isinstance(override, list) and _have_names([*base, *override]):
        by_name = {item["name"]: item for item in base}
        for item in override:
            by_name[item["name"]] = merged(by_name.get(item["name"], {}), item)
        return list(by_name.values())
    return override


def _have_names(items: list[Any]) -> bool:
    return all(isinstance(item, dict) and "name" in item for item in items)
