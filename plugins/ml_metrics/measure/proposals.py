"""The configuration that would read a file of no known format, made from its content.

Names and keys come from the file: what cannot stand in a test file is left out or replaced.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import combinations, islice, pairwise
from typing import TYPE_CHECKING, Any

import yaml

from ml_metrics.config.collection import FORMAT_FILES
from ml_metrics.config.paths import path_to
from ml_metrics.config.patterns import matches_file
from ml_metrics.core.errors import MlMetricsError
from ml_metrics.core.kinds import HIGHER, LOWER, kind_of
from ml_metrics.measure.points import STEPS, TIMES, seconds_of_number, step_of
from ml_metrics.measure.readers import log as logs
from ml_metrics.measure.readers import registry
from ml_metrics.measure.readers.documents import documents_in, measured
from ml_metrics.measure.readers.documents import kind_of as kind_of_document
from ml_metrics.measure.readings import Readings
from ml_metrics.measure.text import number_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ml_metrics.config.collection import DocumentFormat
    from ml_metrics.core.limits import Allowance
    from ml_metrics.core.model import Metric
    from ml_metrics.store import storage

SURROGATE = re.compile("[\ud800-\udfff]")
Keys = tuple[str | int | None, ...]
"""None stands for each element of a list, `EACH` for each key of an object."""
EACH = -1
MANY_DOCUMENTS, MANY_PLACES, MANY_ELEMENTS = 1_000, 20_000, 2_000
MANY_CHOICES, LONGEST_NAME, MANY_STEPS = 300, 200, 2
MAX_NAMES, MAX_NUMBERED = 8, 50
"""How many metrics are named one by one, and how many elements are numbered."""
NAMES = (
    "name", "fullname", "full_name", "benchmark", "metric", "metric_name", "test", "case", "id", "key", "label",
    "title", "model", "jobname", "task", "dataset", "kernel", "op", "operator", "config", "method",
)  # fmt: skip
"""The fields that name what they stand beside, the likeliest first."""
OF_ONE = 8
"""Of a single element, only the first of these."""
NO_METRICS = frozenset({
    "seed", "version", "pid", "port", "id", "uuid", "line", "rank", "timestamp", "date", "time_ms", "year", "index",
})  # fmt: skip


def propose(file: storage.File, allowance: Allowance) -> dict[str, Any]:
    """Return `sources` of a config that read numbers of a file, or nothing."""
    if not matches_file(FORMAT_FILES, file.name):
        known, _ = registry.recognise(file, allowance)
        if known is not None:
            return {"formats": {"stated": {known.name: [SURROGATE.sub("?", file.name)]}}}
    profiles = logs.known_profiles(file, allowance)
    if profiles:
        return {"logs": {"profile": profiles[0], "files": [file.name]}}
    found = Readings(allowance)
    found.begin(file)
    try:
        kind = kind_of_document(found)
        documents = list(islice(documents_in(found, kind), MANY_DOCUMENTS))
    except (MlMetricsError, OSError):
        documents, kind = [], "json"
    files = [SURROGATE.sub("?", file.name)]  # which a test file cannot hold
    entries: list[dict[str, Any]] = []
    for entry in _entries(documents, kind):
        last = entries[-1] if entries else {}
        if "step" not in entry and "step" not in last and "metrics" in entry and "metrics" in last:
            last["metrics"] = {**entry["metrics"], **last["metrics"]}
        else:
            entries.append({"files": files, **entry})
    if entries:
        return {"documents": entries}
    lines = _lines(file)
    return {"logs": {"files": files, "profiles": {"ours": {"lines": lines}}}} if lines else {}


@dataclass(slots=True)
class _Group:
    """The elements of one list, and the places of numbers within each."""

    keys: Keys
    elements: list[dict[str, Any]] = field(default_factory=list)
    leaves: dict[Keys, list[float]] = field(default_factory=dict)
    """The values at each place, by the keys within an element."""


def _entries(documents: list[Any], kind: DocumentFormat) -> Iterator[dict[str, Any]]:
    """Yield entries of `sources.documents`."""
    are_rows = kind in ("json_lines", "csv")
    groups: dict[Keys, _Group] = {}
    for document in documents:
        _walk(document, groups, of_text=kind in ("csv", "xml"))
    given = {"format": kind} if kind == "json_lines" else {}
    several = sum(bool(one.leaves and {None, EACH} & set(one.keys)) for one in groups.values()) > 1
    for group in groups.values():
        leaves = {keys: values for keys, values in group.leaves.items() if _may_be_metric(keys, values)}
        if not leaves:
            continue
        if not {None, EACH} & set(group.keys) and not are_rows:
            yield {**given, **_plain(leaves)}
        else:
            yield {**given, **_of_list(group, leaves, several=several)}


def _walk(document: Any, groups: dict[Keys, _Group], *, of_text: bool) -> None:
    """Sort the numbers of a document by the innermost list of objects that they are in."""
    stack: list[tuple[Any, Keys, Keys]] = [(document, (), ())]
    places = 0
    while stack and places < MANY_PLACES:
        value, outer, inner = stack.pop()
        places += 1
        if isinstance(value, dict):
            group = groups.setdefault(outer, _Group(outer))
            if not inner and len(group.elements) < MANY_ELEMENTS:
                group.elements.append(value)
            if _are_alike(value):
                stack += [(one, (*outer, *inner, EACH), ()) for one in reversed(value.values())]
            else:
                stack += [(one, outer, (*inner, str(key))) for key, one in reversed(value.items())]
        elif isinstance(value, list) and any(isinstance(one, dict | list) for one in value):
            stack += [(one, (*outer, *inner, None), ()) for one in reversed(value)]
        else:
            for one in value if isinstance(value, list) else [value]:
                number = measured(one)[0] if of_text and isinstance(one, str) else _number(one)
                if number is not None:
                    groups.setdefault(outer, _Group(outer)).leaves.setdefault(inner, []).append(number)


def _are_alike(value: dict[str, Any]) -> bool:
    """Whether the keys of an object are names of what was measured: each leads to an object of the same keys."""
    shapes = [frozenset(one) for one in value.values() if isinstance(one, dict)]
    return len(value) > 2 and len(shapes) == len(value) and all(shapes) and len(set(shapes)) == 1


def _number(value: Any) -> float | None:
    return None if value is None or isinstance(value, bool | str) else number_of(value)


def _may_be_metric(keys: Keys, values: list[float]) -> bool:
    name = str(keys[-1]).lower() if keys else ""
    are_times = all(value and seconds_of_number(value, certain=False) is not None for value in values)
    if any(isinstance(key, str) and not key.isascii() and SURROGATE.search(key) for key in keys):
        return False  # no test file can name it
    return name not in NO_METRICS and name not in TIMES and not name.endswith(("_id", "_version")) and not are_times


def _plain(leaves: dict[Keys, list[float]]) -> dict[str, Any]:
    """Numbers outside of lists."""
    if len(leaves) > MAX_NAMES and all(len(values) == 1 or keys for keys, values in leaves.items()):
        return {}
    return {"metrics": {_name(keys) or "value": path_to(keys) for keys in leaves}}


def _of_list(group: _Group, leaves: dict[Keys, list[float]], *, several: bool) -> dict[str, Any]:
    """Numbers in a list: points if each element has a step, else results, told apart by what is beside them."""
    prefix = [_name((key,)) for key in group.keys if key not in {None, EACH}] if several else []
    step = _step_of(group.elements)
    if step is not None:
        metrics = _named(prefix, group.keys, {keys: one for keys, one in leaves.items() if keys != (step,)})
        return {"metrics": metrics, "step": step}
    beside = _names_of(group)
    return {"metrics": _named([*prefix, *beside], group.keys, leaves)}


def _named(parts: list[str], keys: Keys, leaves: dict[Keys, list[float]]) -> dict[str, str]:
    within = {inner: "/".join(filter(None, [*parts, _name(inner)])) for inner in leaves}
    if len(leaves) > MAX_NAMES and all(within) and parts:
        return {"/".join(parts): _path(keys)}
    return {name or "value": _path((*keys, *inner)) for inner, name in within.items()}


def _name(keys: Keys) -> str:
    text = "/".join(map(str, keys)).replace("{", "(").replace("}", ")")
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _path(keys: Keys) -> str:
    return path_to(tuple(None if key == EACH else key for key in keys))


def _step_of(elements: list[dict[str, Any]]) -> str | None:
    """The field that is the step of every element, or most of them, if it grows."""
    for step in STEPS:
        values = [step_of(_as_number(one[step])) for one in elements if step in one]
        whole = [value for value in values if value is not None]
        if len(whole) > 1 and len(whole) == len(values) > len(elements) / 2 and len(set(whole)) > len(whole) / 4:
            return step
    first = next(iter(elements[0]), "") if len(elements) > MANY_STEPS else ""
    values = [step_of(_as_number(one.get(first))) for one in elements]
    grows = None not in values and all(one < later for one, later in pairwise(values))  # type: ignore[operator]
    return first if grows and elements else None


def _as_number(value: Any) -> Any:
    return measured(value)[0] if isinstance(value, str) else value


def _names_of(group: _Group) -> list[str]:
    """The fields that tell the elements of a list apart, in braces; else their keys or numbers."""
    stars = [key for key in group.keys if key in {None, EACH}]
    places = [f"{{{position}}}" for position, key in enumerate(stars, 1) if key == EACH]
    elements = group.elements
    if not elements or group.keys[-1:] == (EACH,):
        return places
    fields = [name for name in elements[0] if name.isprintable() and not set(name) & {"{", "}"} and name]
    texts = [name for name in fields if all(_is_name(one.get(name)) for one in elements)]
    if len(elements) == 1:  # there may be more in another run
        return [*places, *(f"{{{name}}}" for name in texts if name.lower() in NAMES[:OF_ONE])][: len(places) + 1]
    texts.sort(key=lambda name: NAMES.index(name.lower()) if name.lower() in NAMES else len(NAMES))
    numbers = [name for name in fields if all(_number(_as_number(one.get(name))) is not None for one in elements)]
    for more in range(3):
        for chosen in islice(combinations([*texts, *numbers], more + 1), MANY_CHOICES):
            if chosen[0] in texts and len({tuple(str(one[name]) for name in chosen) for one in elements}) == len(
                elements
            ):
                return [*places, *(f"{{{name}}}" for name in chosen)]
    return [f"{{{position}}}" for position in range(1, len(stars) + 1)] if len(elements) <= MAX_NUMBERED else places


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= LONGEST_NAME and measured(value)[0] is None


WORDS = re.compile(
    r"(?P<name>[A-Za-z][\w ./()%-]{1,60}?)\s*(?:[:=]|\s{2,})\s*"
    r"(?P<value>[-+]?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?)(?![\w.:/-])"
)
HEAD, MAX_LINES, LONGEST_LINE, WIDTH = 256 << 10, 12, 300, 120


def _lines(file: storage.File) -> list[dict[str, str]]:
    """Return log lines `name: number` as they stand in a text, each with the expression that reads it."""
    with file.open() as opened:
        head = opened.read(HEAD)
    if b"\0" in head:
        return []
    found: dict[str, dict[str, str]] = {}
    for line in head.decode(errors="replace").splitlines():
        match = WORDS.search(line)
        if match is None or len(line) > LONGEST_LINE or not line.isprintable():
            continue
        name = re.sub(r"\W+", "_", match["name"].strip()).strip("_").lower()
        if name and not name[0].isdigit() and name not in NO_METRICS and name not in found:
            before = re.sub(r"(\\ |\s)+", r"\\s+", re.escape(line[match.start() : match.start("value")].strip()))
            found[name] = {"line": rf"{before}\s*(?P<{name}>[-+]?[0-9][0-9,.eE+-]*)", "example": line.strip()}
    return list(found.values())[:MAX_LINES]


def as_yaml(value: Mapping[str, Any]) -> list[str]:
    """The lines of a configuration, in which what holds nothing but scalars is in one line."""
    text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=WIDTH, default_flow_style=None)
    return text.splitlines()


def conditions(metrics: Sequence[Metric]) -> dict[str, Any]:
    """Return conditions for the first metrics whose better direction is known, or else for the first one."""
    comparisons = {HIGHER: "greater", LOWER: "less"}
    better = {one.name: one.better or kind_of(one.name).better for one in metrics}
    known = {name: {"comparison": comparisons[way]} for name, way in better.items() if way in comparisons}
    return dict(islice(known.items(), 3)) or {one.name: {"comparison": "within"} for one in metrics[:1]}
