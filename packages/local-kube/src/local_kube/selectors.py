"""Label and field selectors: which objects a list or a watch means."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from local_kube.refusals import RefusalError

if TYPE_CHECKING:
    from collections.abc import Callable

    from local_kube.records import Document

Matches = "Callable[[Document], bool]"

BETWEEN_TERMS = re.compile(r",(?![^()]*\))")
SET_TERM = re.compile(r"(?P<key>[^\s=!(),]+)\s+(?P<how>in|notin)\s*\((?P<values>[^()]*)\)")
EQUALITY_TERM = re.compile(r"(?P<key>[^\s=!(),]+)\s*(?P<how>==|=|!=)\s*(?P<value>[^\s=!(),]*)")
EXISTS_TERM = re.compile(r"(?P<no>!?)\s*(?P<key>[^\s=!(),]+)")


def by_labels(selector: str) -> Callable[[Document], bool]:
    """What `labelSelector` asks for: `a=b,c!=d,e in (f,g),h notin (i),j,!k`, all of which must hold."""
    terms = [_label_term(term.strip()) for term in BETWEEN_TERMS.split(selector) if term.strip()]
    return lambda document: all(term(document["metadata"].get("labels") or {}) for term in terms)


def by_fields(selector: str) -> Callable[[Document], bool]:
    """What `fieldSelector` asks for: `status.phase=Running,metadata.name!=x`."""
    terms = [_field_term(term.strip()) for term in selector.split(",") if term.strip()]
    return lambda document: all(term(document) for term in terms)


def _label_term(term: str) -> Callable[[dict[str, str]], bool]:
    if found := SET_TERM.fullmatch(term):
        key, wanted = found["key"], found["how"] == "in"
        values = {value.strip() for value in found["values"].split(",")}
        return lambda labels: (labels.get(key) in values) is wanted
    if found := EQUALITY_TERM.fullmatch(term):
        key, value, equal = found["key"], found["value"], found["how"] != "!="
        return lambda labels: (labels.get(key) == value) is equal
    if found := EXISTS_TERM.fullmatch(term):
        key, present = found["key"], not found["no"]
        return lambda labels: (key in labels) is present
    raise RefusalError(400, f'unable to parse requirement: found "{term}", expected a label selector')


def _field_term(term: str) -> Callable[[Document], bool]:
    found = re.fullmatch(r"([\w.]+)(==|=|!=)(.*)", term)
    if found is None:
        raise RefusalError(400, f'invalid selector: "{term}"; can\'t understand it')
    path, how, value = found.groups()
    return lambda document: (_field(document, path) == value) is (how != "!=")


def _field(document: Document, path: str) -> str:
    value: Any = document
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return "" if value is None else str(value)
