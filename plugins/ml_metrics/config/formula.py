"""The text of an expression, such as `tokens / step_time / chips`: what it may contain, and what it refers to.

Only numbers, names, `+ - * / **`, parentheses and a few functions are accepted. Texts come from anyone who may write a
test file, so length, depth and exponents are limited, and nothing is ever evaluated by Python itself.
"""

from __future__ import annotations

import ast
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from ml_metrics.core.text import did_you_mean, shortened

MAX_LENGTH = 1000
MAX_DEPTH = 60
MAX_EXPONENT = 100
OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div)
FUNCTIONS = {"min": (2, 20), "max": (2, 20), "abs": (1, 1), "sqrt": (1, 1), "log": (1, 1), "exp": (1, 1)}
"""The functions, with the fewest and the most arguments of each."""
GRAMMAR = f"an expression has numbers, names, + - * / **, parentheses, and {', '.join(FUNCTIONS)}"


class Of(StrEnum):
    """What a name in an expression refers to."""

    ANY = "name"
    TAG = "tag"
    METRIC = "metric"
    PARAM = "param"


@dataclass(frozen=True, slots=True)
class Reference:
    """A name in an expression: plain, or as `tag("...")`, `metric("...")` or `param("...")`."""

    of: Of
    name: str


@dataclass(frozen=True, slots=True)
class Formula:
    """An expression that is valid."""

    tree: ast.expr
    references: tuple[Reference, ...]


@lru_cache(maxsize=1024)
def formula(text: str) -> Formula:
    """Raises ValueError with the reason if it is not valid."""
    if not text.strip():
        raise ValueError("the expression is empty")
    if len(text) > MAX_LENGTH:
        raise ValueError(f"the expression has {len(text):,} characters; {MAX_LENGTH:,} are allowed")
    text = text.strip().replace("\n", " ")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Python about text that is rejected below
            tree = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        where = f" near character {error.offset}" if error.offset else ""
        raise ValueError(f"{shortened(text)!r} is not an expression{where}: {error.msg}") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"{shortened(text)!r} is not an expression: {error or 'it is nested too deeply'}") from error
    references = tuple(dict.fromkeys(_checked(tree, text)))
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    if text.count("#") != "".join(texts).count("#"):
        raise ValueError(f"{shortened(text)!r} has a comment, which an expression cannot have")
    return Formula(tree, references)


def reference_of(node: ast.expr) -> Reference | None:
    """None if the part refers to nothing."""
    if isinstance(node, ast.Name):
        return Reference(Of.ANY, node.id)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id not in FUNCTIONS:
        (argument,) = node.args
        return Reference(Of(node.func.id), ast.literal_eval(argument))
    return None


def _checked(node: ast.expr, text: str, depth: int = 1) -> Iterator[Reference]:
    """Yield what the expression refers to. Raises ValueError at a part that is not allowed."""
    if depth > MAX_DEPTH:
        raise ValueError(f"{shortened(text)!r} is nested more than {MAX_DEPTH} deep")
    part = shortened(ast.get_source_segment(text, node) or "")
    for each in _parts(node, part):
        yield from _checked(each, text, depth + 1)
    if (reference := reference_of(node)) is not None:
        yield reference


def _parts(node: ast.expr, part: str) -> list[ast.expr]:
    """The expressions within one that is allowed itself."""
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            _check_number(number, part)
            return []
        case ast.Name():
            return []
        case ast.UnaryOp(op=ast.UAdd() | ast.USub(), operand=operand):
            return [operand]
        case ast.BinOp(op=ast.Pow(), left=left, right=right):
            _check_exponent(right, part)
            return [left, right]
        case ast.BinOp(op=op, left=left, right=right) if isinstance(op, OPERATORS):
            return [left, right]
        case ast.Call(func=ast.Name(id=name)):
            return _arguments(node, name, part)
    raise ValueError(_why_not(node, part))


def _why_not(node: ast.expr, part: str) -> str:
    if isinstance(node, ast.Attribute):
        return f'{part} is not allowed: a name with other characters is written tag("{part}")'
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitXor):
        return f"{part}: a power is written `**`"
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return f"{part} is text: write tag({part}), metric({part}) or param({part})"
    return f"{part} is not allowed: {GRAMMAR}"


def _check_number(number: float, part: str) -> None:
    try:
        is_finite = math.isfinite(float(number))
    except OverflowError:
        is_finite = False
    if not is_finite:
        raise ValueError(f"{part} is too great a number")


def _check_exponent(node: ast.expr, part: str) -> None:
    number = node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd | ast.USub) else node
    value = number.value if isinstance(number, ast.Constant) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not value <= MAX_EXPONENT:
        raise ValueError(f"{part}: an exponent is a number from -{MAX_EXPONENT} to {MAX_EXPONENT}")


def _arguments(call: ast.Call, name: str, part: str) -> list[ast.expr]:
    kinds = [one.value for one in Of if one is not Of.ANY]
    if name not in FUNCTIONS and name not in kinds:
        known = [*FUNCTIONS, *kinds]
        raise ValueError(f"unknown function {name!r}; available: {', '.join(known)}{did_you_mean(name, known)}")
    if call.keywords or any(isinstance(one, ast.Starred) for one in call.args):
        raise ValueError(f"{part}: arguments are given one by one, without names")
    if name in kinds:
        values = [one.value for one in call.args if isinstance(one, ast.Constant)]
        if len(call.args) != 1 or len(values) != 1 or not isinstance(values[0], str) or not values[0]:
            raise ValueError(f'{part}: write {name}("..."), with a name in quotes')
        return []
    fewest, most = FUNCTIONS[name]
    if not fewest <= len(call.args) <= most:
        count = str(fewest) if fewest == most else f"{fewest} to {most}"
        raise ValueError(f"{part}: {name} has {count} argument{'s' if most > 1 else ''}, not {len(call.args)}")
    return call.args
