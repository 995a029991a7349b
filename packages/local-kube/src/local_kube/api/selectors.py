"""Label and field selectors, as predicates."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from local_kube.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable

    from local_kube.json_files import Document

BETWEEN_TERMS = re.compile(r",(?![^()]*\))")
SET_TERM = re.compile(r"(?P<key>[^\s=!(),]+)\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)")
EQUALITY_TERM = re.compile(r"(?P<key>[^\s=!(),]+)\s*(?P<operator>==|=|!=)\s*(?P<value>[^\s=!(),]*)")
EXISTS_TERM = re.compile(r"(?P<negation>!?)\s*(?P<key>[^\s=!(),]+)")


def by_labels(selector: str) -> Callable[[Document], bool]:
    """Return the predicate of a `labelSelector`, for example `a=b,c!=d,e in (f,g),h notin (i),j,!k`."""
    terms = [_label_term(term.strip()) for term in BETWEEN_TERMS.split(selector) if term.strip()]
    return lambda document: all(term(document["metadata"].get("labels") or {}) for term in terms)


def by_fields(selector: str) -> Callable[[Document], bool]:
    """Return the predicate of a `fieldSelector`, for example `status.phase=Running,metadata.name!=x`."""
    terms = [_field_term(term.strip()) for term in selector.split(",") if term.strip()]
    return lambda document: all(term(document) for term in terms)


def _label_term(term: str) -> Callable[[dict[str, str]], bool]:
    if found := SET_TERM.fullmatch(term):
        key, included = found["key"], found["operator"] == "in"
        values = {value.strip() for value in found["values"].split(",")}
        return lambda labels: (labels.get(key) in values) is included
    if found := EQUALITY_TERM.fullmatch(term):
        key, value, equal = found["key"], found["value"], found["operator"] != "!="
        return lambda labels: (labels.get(key) == value) is equal
    if found := EXISTS_TERM.fullmatch(term):
        key, present = found["key"], not found["negation"]
        return lambda labels: (key in labels) is present
    raise ApiError(400, f'unable to parse requirement: found "{term}", expected a label selector')


def _field_term(term: str) -> Callable[[Document], bool]:
    found = re.fullmatch(r"([\w.]+)(==|=|!=)(.*)", term)
    if found is None:
        raise ApiError(400, f'invalid selector: "{term}"; can\'t understand it')
    path, operator, value = found.groups()
    return lambda document: (_field(document, path) == value) is (operator != "!=")


def _field(document: Document, path: str) -> str:
    value: Any = document
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return "" if value is None else str(value)
