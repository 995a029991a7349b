"""The configuration that would read a file of no known format, made from its content.

Names and keys come from the file: what cannot stand in a test file is left out or replaced.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from glob import escape
from itertools import chain, combinations, islice, pairwise, zip_longest
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

import yaml

from ml_metrics.config.collection import FORMAT_FILES, INDEX, STEP
from ml_metrics.config.paths import path_to
from ml_metrics.config.patterns import MAX_LENGTH, matches_file
from ml_metrics.core.errors import MlMetricsError
from ml_metrics.core.kinds import HIGHER, LOWER, Measure, kind_of
from ml_metrics.core.units import factor_between
from ml_metrics.measure.points import MAYBE_TIMES, STEPS, TIMES, seconds_of, seconds_of_number, step_of
from ml_metrics.measure.readers import log as logs
from ml_metrics.measure.readers import registry
from ml_metrics.measure.readers.documents import documents_in
from ml_metrics.measure.readers.documents import kind_of as kind_of_document
from ml_metrics.measure.readings import Readings
from ml_metrics.measure.text import PREFIXES, measured, number_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ml_metrics.config.collection import DocumentFormat
    from ml_metrics.core.limits import Allowance
    from ml_metrics.core.model import Metric, Sweep
    from ml_metrics.store import storage

SURROGATE = re.compile("[\ud800-\udfff]")
"""What a test file cannot hold."""
STAMP = re.compile(
    r"(?<!\d)(?:(?:19|20)\d\d-?[01]\d-?[0-3]\d(?:[T_ -]?[0-2]\d[-:_.]?[0-5]\d(?:[-:_.]?[0-5]\d(?:\.\d+)?)?)?Z?"
    r"|\d{10,})(?!\d)"
)
"""A time in the name of a file, which has another one in the next run."""
Keys = tuple[str | int | None, ...]
"""None stands for each element of a list, `EACH` for each key of an object."""
EACH = -1
MANY_DOCUMENTS, MANY_PLACES, MANY_ELEMENTS = 1_000, 20_000, 2_000
MANY_CHOICES, LONGEST_NAME, MANY_STEPS, MANY_AROUND = 300, 200, 2, 20
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


WHOLE = (".json", ".yaml", ".yml", ".toml", ".xml")
"""The names of files that are one document, or nothing."""


def propose(file: storage.File, allowance: Allowance) -> tuple[dict[str, Any], list[str]]:
    """Return `sources` of a config that read numbers of a file, or nothing; and what they leave out."""
    if not matches_file(FORMAT_FILES, file.name):
        known, _ = registry.recognise(file, allowance)
        if known is not None:
            return {"formats": {"stated": {known.name: [_pattern(file.name)]}}}, []
    profiles = logs.known_profiles(file, allowance)
    if profiles:
        return {"logs": {"profile": profiles[0], "files": [_pattern(file.name)]}}, []
    found = Readings(allowance)
    found.begin(file)
    try:
        documents, kind = _documents(found)
    except (MlMetricsError, OSError) as error:
        if file.name.lower().endswith(WHOLE):  # its lines alone would mix the numbers of many places
            return {}, [f"{file.name}: not read: {error}"]
        documents, kind = [], "json"
    files = [_pattern(file.name)]
    entries: list[dict[str, Any]] = []
    for entry in _entries(documents, kind):
        last = entries[-1] if entries else {}
        if "step" not in entry and "step" not in last and "metrics" in entry and "metrics" in last:
            last["metrics"] = {**entry["metrics"], **last["metrics"]}
        else:
            entries.append({"files": [*files], **entry})
    if entries:
        return {"documents": entries}, []
    lines, more = _lines(file)
    said = [f"{file.name}: {more} more kinds of lines hold numbers, and are left out here"] if more else []
    return ({"logs": {"files": files, "profiles": {"ours": {"lines": lines}}}} if lines else {}), said


def _pattern(name: str) -> str:
    """The name of a file, or a pattern for it if a time is in it."""
    parts = STAMP.split(SURROGATE.sub("?", name))
    return parts[0] if len(parts) == 1 else "*".join(map(escape, parts))


def _documents(found: Readings) -> tuple[list[Any], DocumentFormat]:
    """The first documents in a file. Lines of a log, whose commas look like those of a table, are none."""
    kind = kind_of_document(found)
    documents = list(islice(documents_in(found, kind), MANY_DOCUMENTS))
    is_named = found.lines.file.name.lower().removesuffix(".gz").endswith((".csv", ".tsv"))
    header = list(documents[0]) if kind == "csv" and documents else []
    if is_named:
        is_data = any(CLOCK.search(one) or _as_number(one) is not None for one in header[:1])
    else:
        is_data = any(map(any, chain.from_iterable(_numbers(one, [])[1] for one in header)))
    return [] if is_data else documents, kind


@dataclass(slots=True)
class _Group:
    """The elements of one list, and the places of numbers within each."""

    keys: Keys
    elements: list[dict[str, Any]] = field(default_factory=list)
    around: list[dict[str, Any]] = field(default_factory=list)
    """The fields around each element."""
    leaves: dict[Keys, list[float]] = field(default_factory=dict)
    """The values at each place, by the keys within an element."""


def _entries(documents: list[Any], kind: DocumentFormat) -> Iterator[dict[str, Any]]:
    """Yield entries of `sources.documents`."""
    are_rows = kind in ("json_lines", "csv") or len(documents) > 1
    groups: dict[Keys, _Group] = {}
    for document in documents:
        _walk(document, groups)
    given = {"format": kind} if kind == "json_lines" else {}
    several = sum(bool(one.leaves and {None, EACH} & set(one.keys)) for one in groups.values()) > 1
    for group in chain.from_iterable(map(_split, groups.values())):
        leaves = {keys: values for keys, values in group.leaves.items() if _may_be_metric(keys, values)}
        if not leaves:
            continue
        if not {None, EACH} & set(group.keys) and not are_rows:
            curves = _curves(leaves)
            if curves:
                yield {"metrics": _named([], (), dict(curves)), "step": INDEX}
            if rest := {keys: values for keys, values in leaves.items() if keys not in curves}:
                yield {**given, **_plain(rest)}
        else:
            yield {**given, **_of_list(group, leaves, several=several)}


def _split(group: _Group) -> Iterator[_Group]:
    """Yield the elements that have a name, and those that have none, if there are both."""
    names = (name for name in NAMES[:OF_ONE] if 0 < sum(name in one for one in group.elements) < len(group.elements))
    name = next(names, None)
    pairs = list(zip(group.elements, group.around, strict=True))
    own = [pair for pair in pairs if name in pair[0]]
    leaves = {keys: one for keys, one in group.leaves.items() if any({*keys[:1]} & pair[0].keys() for pair in own)}
    others = {keys: one for keys, one in group.leaves.items() if keys not in leaves}
    if name is None or not leaves:
        yield group
        return
    yield _Group(group.keys, [one for one, _ in own], [around for _, around in own], leaves)
    rest = [pair for pair in pairs if name not in pair[0]]
    yield _Group(group.keys, [one for one, _ in rest], [around for _, around in rest], others)


def _curves(leaves: dict[Keys, list[float]]) -> dict[Keys, list[float]]:
    """Lists with a number for each step of a training: equally long ones, if one is a loss."""
    lists = {keys: values for keys, values in leaves.items() if len(values) > 1}
    is_loss = any(kind_of("/".join(map(str, keys))).measure is Measure.LOSS for keys in lists)
    return lists if is_loss and len({len(values) for values in lists.values()}) == 1 else {}


def _walk(document: Any, groups: dict[Keys, _Group]) -> None:
    """Sort the numbers of a document by the innermost list of objects that they are in."""
    stack: list[tuple[Any, Keys, Keys, dict[str, Any]]] = [(document, (), (), {})]
    places = 0
    while stack and places < MANY_PLACES:
        value, outer, inner, around = stack.pop()
        places += 1
        if isinstance(value, dict):
            group = groups.setdefault(outer, _Group(outer))
            if not inner and len(group.elements) < MANY_ELEMENTS:
                group.elements.append(value)
                group.around.append(around)
            scalars = ((name, one) for name, one in value.items() if not isinstance(one, dict | list))
            around = {**around, **dict(islice(scalars, MANY_AROUND))}
            if _are_alike(value):
                stack += [(one, (*outer, *inner, EACH), (), around) for one in reversed(value.values())]
            else:
                stack += [(one, outer, (*inner, str(key)), around) for key, one in reversed(value.items())]
        elif isinstance(value, list) and any(isinstance(one, dict | list) for one in value):
            stack += [(one, (*outer, *inner, None), (), around) for one in reversed(value)]
        else:
            is_row = isinstance(value, list) and outer[-1:] == (None,) and not inner and len(value) <= MAX_NAMES
            for place, one in enumerate(value if isinstance(value, list) else [value]):
                number = _number(_as_number(one))
                if number is not None:
                    keys = (place,) if is_row else inner
                    groups.setdefault(outer, _Group(outer)).leaves.setdefault(keys, []).append(number)


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
    """Numbers in a list: points if each element has a step, else results, told apart by what is beside and around."""
    is_named = several or any(isinstance(key, int) for keys in leaves for key in keys)
    prefix = [_name((key,)) for key in group.keys if key not in {None, EACH}] if is_named else []
    varying = [name for name in dict.fromkeys(chain.from_iterable(group.around)) if len(_texts(group.around, name)) > 1]
    if len(group.elements) > 1:
        beside = zip(group.around, group.elements, strict=True)
        group.elements = [{**{name: one.get(name) for name in varying}, **each} for one, each in beside]
    step = _step_of(group.elements)
    if step is None:
        names = _names_of(group)
        time = None if {name[1:-1].lower() for name in names} & set(NAMES) else _time_of(group.elements)
        if time is not None:
            return {"metrics": _named(prefix, group.keys, leaves), "step": INDEX, "time": time}
        return {"metrics": _named([*prefix, *names], group.keys, leaves)}
    if len(_texts(group.elements, step)) < len(group.elements):  # several series, or steps that were done again
        prefix += [one for one in _names_of(group, step) if not one[1:-1].isdigit()]  # their numbers name nothing
    metrics = _named(prefix, group.keys, {keys: one for keys, one in leaves.items() if keys != (step,)})
    return {"metrics": metrics, "step": step}


def _texts(elements: Sequence[dict[str, Any]], *names: str) -> set[tuple[str, ...]]:
    return {tuple(str(one.get(name)) for name in names) for one in elements}


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


def _time_of(elements: list[dict[str, Any]]) -> str | None:
    """The field that is the time of every element, if it grows."""
    for name in elements[0] if len(elements) > MANY_STEPS else ():
        if name.lower() in {*TIMES, *MAYBE_TIMES}:
            numbers = [(one.get(name), _as_number(one.get(name))) for one in elements]
            times = [seconds_of(text if value is None else value, certain=False) for text, value in numbers]
            if None not in times and all(one < later for one, later in pairwise(times)):  # type: ignore[operator]
                return name
    return None


def _as_number(value: Any) -> Any:
    return measured(value)[0] if isinstance(value, str) else value


def _names_of(group: _Group, *step: str) -> list[str]:
    """The fields that tell the elements of a list apart, at each step, in braces; else their keys or numbers."""
    stars = [key for key in group.keys if key in {None, EACH}]
    places = [f"{{{position}}}" for position, key in enumerate(stars, 1) if key == EACH]
    elements = group.elements
    if group.keys[-1:] == (EACH,) and None in stars:
        elements = group.around  # what tells apart the elements that the objects are in
        if len({id(one) for one in elements}) > len(_texts(elements, *chain.from_iterable(elements))):
            return [f"{{{position}}}" for position in range(1, len(stars) + 1)]
    elif not elements or group.keys[-1:] == (EACH,):
        return places
    fields = [name for name in elements[0] if name.isprintable() and not set(name) & {"{", "}"} and name]
    texts = [name for name in fields if all(_is_name(one.get(name)) for one in elements)]
    if len(elements) == 1:  # there may be more in another run
        return [*places, *(f"{{{name}}}" for name in texts if name.lower() in NAMES[:OF_ONE])][: len(places) + 1]
    texts.sort(key=lambda name: NAMES.index(name.lower()) if name.lower() in NAMES else len(NAMES))
    whole = [name for name in fields if all(step_of(_as_number(one.get(name))) is not None for one in elements)]
    settings = texts if step else [*texts, *whole]
    kinds = len(_texts(elements, *settings, *step))  # those of one kind are repeats
    for more in range(3) if texts and not (step and kinds == len(_texts(elements, *step))) else ():
        for chosen in islice(combinations(settings, more + 1), MANY_CHOICES):
            if chosen[0] in texts and len(_texts(elements, *chosen, *step)) == kinds:
                return [*places, *(f"{{{name}}}" for name in chosen)]
    return [f"{{{position}}}" for position in range(1, len(stars) + 1)] if len(elements) <= MAX_NUMBERED else places


def _is_name(value: Any) -> bool:
    """Whether a value can name something: a time or an identifier is another one in each run."""
    is_text = isinstance(value, str) and 0 < len(value) <= LONGEST_NAME
    return is_text and measured(value)[0] is None and not CLOCK.search(value) and not UUID.fullmatch(value)


UUID = re.compile(r"[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}")
STAMPS = (
    r"\d{4}[-/.]\d\d[-/.]\d\d(?!\d)",
    r"\d\d[-/.]\d\d[-/.]\d{4}(?!\d)",
    r"\b\d\d[-/]\d\d(?=[T ]\d\d:\d\d)",
    r"\d{1,2}:\d\d(?::\d\d)?(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?",
    r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),?(?= +\w+ +[\w:]+ )",
    r"\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)(?= +\d{1,4},? +\d)",
    r"(?<=\b[A-Z])\d{4}(?= \d\d:\d\d:)",  # of glog and absl: I1130 10:00:00
    r"\b20[2-9]\d[01]\d[0-3]\d(?=[T _-]?\d\d:?\d\d)",
    r"^1[6-9]\d{8}(?:\.\d+)?\b",
    UUID.pattern,
    r"\b0x[0-9a-f]+\b",
    r"\d+(?:\.\d+)?(?:/\d+(?:\.\d+)?){2,}",  # of BLEU: 61.2/34.5/21.3/13.7
    r"\b\d+(?:d|h|m|min)(?: ?\d[\d.]*(?:h|m|min|s))+\b",  # 1h 23m 45s
    r"\d{1,3}%\|[^|]*\|",  # of tqdm
)
"""What differs in every run: dates, times, identifiers, and bars."""
NUMBER = re.compile(
    rf"(?P<stamp>{'|'.join(STAMPS)})|(?<![\w./@-])(?<!\d:)"
    r"(?P<number>[-+]?(?:\d+(?:,\d{3})*(?:\.\d+)?(?:[eE][-+]?\d+)?(?:/\d+)?|(?!(?<=[a-z] )nan \w+:)(?i:nan|inf)\b))"
    r"(?P<unit>%|(?!(?:st|nd|rd|th)\b)[A-Za-z]{1,5}(?:/\w+)?)?(?!\w|/\d|[.:-]\w)",
    re.ASCII,  # as the expressions that are proposed
)
"""A stamp, or a number that stands alone, perhaps with its unit: `5`, `6.13ms`, `71.4%`, `10/100`."""
UNIT = re.compile(
    r"\s?(?P<unit>\[[^\]\s\d][^\]]*\]|%|(?:[A-Za-z]+/[A-Za-z]+|[mun]?s|secs?|seconds|bytes|[KMGT]i?B)(?!\w))"
)
"""A unit behind a space."""
WORDS = {"%": "percent", "s": "seconds", "us": "usec", "ns": "nanoseconds"}
"""The ends of names that mean a unit."""
OF_NEXT = re.compile(
    r"\s[\w/]+\s*[:=]\s*[-+]?\.?\d"
    r"|(?:\s\w+/\w+\s+[-+]?[\d.,]++(?:[eE][-+]?\d+)?)+(?=\s*$|\s*[,;|]|\s+[^\W\d]\w*[\s:=]+[-+]?\d)"
)
"""What looks like a unit, but names the next number: `loss 2.3 tok/s 1234`, `loss=2.3 ms=45`."""
FOR_EACH = re.compile(r"/(?=(?:s|secs?|seconds?|op)\b)", re.IGNORECASE)
ITEM = re.compile(r"\s*(?P<name>[^\W\d](?:[^\d,;|:=()\[\]{}]|(?<=\w)\d)*)?(?=[,;|)\]]|$)")
"""The name behind a number that follows a comma: `time: 1.2 s, 123.4 TFLOPS, 12.3 it/s`."""
PERCENTILE = re.compile(r"(?P<percent>\d{1,3}(?:\.\d+)?)%\s+(?:in\s+)?(?=\d)")
"""How the line of a percentile begins."""
BREAK = re.compile(r"[|,;\[\]{}]|\s{2,}|\s-\s")
"""What separates names in a line."""
APART = re.compile(r"(?:[:=,|]\s*|\s{2,})[\[({]*$")
"""What separates a name from its number, if not a single space."""
STEP_IN = re.compile(
    rf"(?:.+_)?(?:(?P<at>at|after|in|for)|train|training|val|valid|validation|eval|test)_(?P<step>{'|'.join(STEPS)})"
)
"""The name of a step with more words: `Train Epoch: 3`, `saved at step 3`; but not `time for epoch: 3.5`."""
PREPOSITION = r"(?:at|after|on|over|in|for|from)"
CONDITION = re.compile(rf"(?<=\w)\s+(?:\(\w+\s|{PREPOSITION}\s+(?:[^\W\d]\w*(?:\s+|=$))*)$")
IS = re.compile(r"(?:\s+[^\W\d]\w*){0,3}?\s*\)?(?:\s*[:=]|\s+(?:is|was)\b)\s*[-+]?[\d.]")
"""What is around the number of a condition, whose name is that of the next number: `Accuracy on 100 images: 54 %`."""
STATISTIC = re.compile(r"p\d+(?:_\d+)?|mean|avg|average|median|min|max|std|stddev|stdev")
OF_SOURCE = re.compile(r"\.\w+:$")
"""What precedes the number of a line of a program: `train.py:`."""
CLOCK = re.compile(r"\d{4}-\d\d-\d\d|\d:\d\d(?!\d)")
HEAD, MAX_LINES, LONGEST_LINE, WIDTH = 256 << 10, 50, 300, 120


def _lines(file: storage.File) -> tuple[list[dict[str, str]], int]:
    """Return expressions for the lines of a text with named numbers, and how many more there are.

    Lines that differ in anything but numbers and times are never read by one expression.
    """
    with file.open() as opened:
        head = opened.read(HEAD)
    if b"\0" in head:
        return [], 0
    lines: dict[tuple[str, ...], tuple[str, list[tuple[str, ...]]]] = {}
    header: list[str] = []
    for line in map(str.strip, logs.COLOUR.sub(b"", head).decode(errors="replace").replace("\t", "  ").splitlines()):
        if len(line) <= LONGEST_LINE and line.isprintable():
            between, names = _numbers(line, header)
            if not names:
                columns = [_word(one) for one in re.split(r"\s{2,}", line)]
                header = columns if len(columns) > 1 else [] if columns[0] else header
            if any(map(any, names)):
                lines.setdefault(between, (line, names))
    found = []
    for (between, (line, given)), chosen in zip(
        lines.items(), _distinct([one for _, one in lines.values()]), strict=True
    ):
        shorts = [short for short, *_ in given]
        step = next((one for one in STEPS if one in shorts), None)
        if step is not None and sum(map(bool, chosen)) > 1:
            chosen[shorts.index(step)] = STEP
        groups = [rf"(?P<{name}>\S+?)" if name else r"\S+?" for name in chosen]
        expression = "".join(chain.from_iterable(zip_longest(between, groups, fillvalue="")))
        if len(expression) < MAX_LENGTH and not {*chosen} <= {"", STEP}:
            found.append({"line": rf"^\s*{expression}\s*$", "example": line})
    return found[:MAX_LINES], len(found[MAX_LINES:])


def _numbers(line: str, header: list[str]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return expressions for what is between the numbers of a line, and the possible names of each number.

    These are the name before it, all words before it, and those behind it as well. A number without a name takes the
    one before, in a table with the name of its column; one that begins the line, or follows a comma, may have its name
    behind it.
    """
    between, names, words, used = [""], list[tuple[str, ...]](), list[str](), Counter[tuple[str, str]]()
    last, unit, first, held, at, begin = "", "", "", "", 0, 0
    if percentile := PERCENTILE.match(line):
        last, begin = f"p{float(percentile['percent']):g}".replace(".", "_"), percentile.end()
    matches = list(NUMBER.finditer(line, begin))
    count = sum(match["number"] is not None for match in matches)
    columns = header[-count:] if count > 1 and len(header) - count in {0, 1} else []
    is_first = not begin and bool(matches) and bool(matches[0]["number"]) and not _word(line[: matches[0].start()])
    is_first = is_first and line[matches[0].end() :][:1] not in {":", "]", ","}  # of a rank
    for match in matches:
        before = line[begin : match.start()]
        if match["stamp"]:
            is_bar = match["stamp"].endswith("|")
            of_any = r"\d+%\|[^|]*\|" if is_bar else r"[\w:.,/+-]+" + r"(?:\s\d[\w.]*)*?" * (" " in match["stamp"])
            between[-1] += _literal(line[at : match.start()]) + of_any
            last, at, begin = "" if is_bar else last, match.end(), match.end()
            continue
        between[-1] += _literal(line[at : match.start()])
        words.append(_word(before))
        unit_before = unit
        unit, at, begin = _unit(line, match)
        if is_first and not names:
            first = _word(BREAK.split(line[begin:].strip())[0])
            is_first = first != "" and not re.search(r"\d", first)
        item = ITEM.match(line, begin)
        behind = _word(item["name"] or "") if item and names and re.search(r"[,;|]\s*$", before) else None
        condition = CONDITION.search(before) if match["number"].isdigit() and IS.match(line, match.end()) else None
        if held and not condition:
            own, held = held, ""
        elif condition:
            last, held = "", _word(re.split("[,;|:=(]", before[: condition.start()])[-1])
            own = next((one for one in STEPS if words[-1].endswith(one)), "")
        elif behind or (behind is not None and unit not in {"", unit_before}):
            own, unit = (behind, unit) if behind else (unit, "")
        elif is_first:
            last = own = "" if names else first
        else:
            is_alone = last and len(before.split()) == 1 and not re.fullmatch(PREPOSITION, words[-1])
            own = words[-1] if is_alone else _label(before)
        last = own or ("" if words[-1] else last)
        name = f"{last}_{columns[len(names)]}" if last and columns and (not words[-1] or not names) else last
        used[name, unit] += 1
        nth = f"_{used[name, unit]}" if used[name, unit] > 1 else ""
        long = _with_unit("_".join(filter(None, words)) + nth, unit) if words[0] else name
        are_names = name and name not in NO_METRICS
        names.append((_with_unit(name + nth, unit), long, f"{long}_{_word(line[begin:])}") if are_names else ("",) * 3)
        last = "" if own in STEPS else last
        between.append("")
    between[-1] += _literal(line[at:])
    return tuple(between), names


def _unit(line: str, match: re.Match[str]) -> tuple[str, int, int]:
    """The unit of a number, as a word; the end of what is read, with a unit that is converted; and that of the unit."""
    is_of_next = OF_NEXT.match(line, match.end())
    behind = None if match["unit"] or is_of_next else UNIT.match(line, match.end())
    text = behind["unit"] if behind else match["unit"] or ""
    if text in PREFIXES:
        return "", match.end(), match.end()
    word = WORDS.get(text) or _word(text)
    is_converted = not behind and factor_between(text, kind_of(f"x_{word}").unit) == 1
    return word, match.end("unit" if is_converted else "number"), (behind or match).end()


def _with_unit(name: str, unit: str) -> str:
    return name if not unit or name.endswith(unit) or ("per_" in unit and "_per_" in name) else f"{name}_{unit}"


def _label(before: str) -> str:
    """The last name before a number. Behind a single space, it has to be known: `2 threads and 4 connections`."""
    names = [_word(one) for one in BREAK.split(before)]
    name = next((one for one in reversed(names) if one.strip("_0123456789")), "")
    name = name.removesuffix("_is").removesuffix("_was")
    is_apart = APART.search(before)
    if (step := STEP_IN.fullmatch(name)) and not (step["at"] and is_apart):
        return step["step"]
    is_known = is_apart or name in STEPS or STATISTIC.fullmatch(name) or kind_of(name).better
    return name if is_known and not OF_SOURCE.search(before) else ""


def _word(text: str) -> str:
    return re.sub(r"\W+", "_", FOR_EACH.sub(" per ", normalize("NFKC", text))).strip("_").lower()  # m² is m2


def _literal(text: str) -> str:
    return re.sub(r"(?:\\?\s)+", r"\\s+", re.escape(text))


def _distinct(lines: list[list[tuple[str, ...]]]) -> list[list[str]]:
    """For each number of each line the shortest of its names that no other has."""
    of_all = [Counter(names[level] for line in lines for names in line) for level in range(3)]
    used = Counter[str]()

    def chosen(names: tuple[str, ...]) -> str:
        name = next((one for one, counts in zip(names, of_all, strict=True) if counts[one] == 1), names[0])
        name = f"n_{name}" if name[:1].isdigit() else name
        used[name] += 1
        return f"{name}_{used[name]}" if name and used[name] > 1 else name

    return [[chosen(names) for names in line] for line in lines]


def as_yaml(value: Mapping[str, Any]) -> list[str]:
    """The lines of a configuration, in which what holds nothing but scalars is in one line."""
    text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=WIDTH, default_flow_style=None)
    return text.splitlines()


def conditions(metrics: Sequence[Metric | Sweep]) -> dict[str, Any]:
    """Return conditions for the first metrics or curves whose better direction is known, or else for the first one."""
    comparisons = {HIGHER: "greater", LOWER: "less"}
    better = {one.name: one.better or kind_of(one.name).better for one in metrics}
    known = {name: {"comparison": comparisons[way]} for name, way in better.items() if way in comparisons}
    return dict(islice(known.items(), 3)) or {one.name: {"comparison": "within"} for one in metrics[:1]}
