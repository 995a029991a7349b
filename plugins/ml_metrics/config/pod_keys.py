"""The keys of a pod, by the models of Kubernetes' own client. The client leaves out what it does not know."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ml_metrics.config.problems import did_you_mean
from ml_metrics.config.templates import is_template

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.config.document import Where
    from ml_metrics.config.policy import Found


MODELS = {"pod": "V1PodTemplateSpec", "init_containers": "list[V1Container]", "tolerations": "list[V1Toleration]"}
"""The keys of a test whose values are parts of a pod, with their models."""
_LIST = re.compile(r"list\[(.+)\]")
_MAPPING = re.compile(r"dict[\[(]str, (.+)[\])]")


def unknown_in(test: TestDefinition) -> Iterator[Found]:
    """Yield the place and the reason of everything in the pod of a test that Kubernetes does not know."""
    for key, model in MODELS.items():
        if value := getattr(test, key):
            yield from _unknown(value, model, (key,))


def _unknown(value: Any, model: str, where: Where) -> Iterator[Found]:
    if value is None or (isinstance(value, str) and is_template(value)):
        return  # null removes what the test states; what a template makes is text
    if of_list := _LIST.fullmatch(model):
        if isinstance(value, list | tuple):
            for number, item in enumerate(value):
                yield from _unknown(item, of_list[1], (*where, number))
        else:
            yield where, "should be a list"
        return
    of_mapping, keys = _MAPPING.fullmatch(model), _keys_of(model)
    if not of_mapping and keys is None:
        return  # a single value, or one of any kind
    if not isinstance(value, dict):
        yield where, "should be a mapping"
        return
    for key, item in value.items():
        inner = of_mapping[1] if of_mapping else (keys or {}).get(key)
        if inner is None:
            yield (*where, key), f"Kubernetes has no such key here{did_you_mean(str(key), keys or ())}"
        else:
            yield from _unknown(item, inner, (*where, key))


@cache
def _keys_of(model: str) -> dict[str, str] | None:
    """Return the keys of a model with the models of their values; None for a single value."""
    if not model[0].isupper():
        return None
    # by name: only a test that states a part of its pod pays for the import
    found = getattr(import_module("kubernetes.client.models"), model)
    return {found.attribute_map[name]: inner for name, inner in found.openapi_types.items()}
