"""The text of an expression, such as `tokens / step_time / chips`: what it may contain, and what it refers to.

Only numbers, names, `+ - * / **`, parentheses and a few functions are accepted. Texts come from anyone who may write a
test file, so length, depth and exponents are limited, and nothing is ever evaluated by Python itself.
"""

from __future__ import annotations

import ast
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from ml_metrics.core.text import did_you_mean, shortened

MAX_LENGTH = 1000
MAX_DEPTH = 60
MAX_EXPONENT = 100
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


def _checked(  # noqa: C901, PLR0912  (a case for each part of the grammar)
    node: ast.expr, text: str, depth: int = 1
) -> Iterator[Reference]:
    """Yield what the expression refers to. Raises ValueError at a part that is not allowed."""
    if depth > MAX_DEPTH:
        raise ValueError(f"{shortened(text)!r} is nested more than {MAX_DEPTH} deep")
    part = shortened(ast.get_source_segment(text, node) or "")
    inner: list[ast.expr] = []
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            if not -sys.float_info.max <= number <= sys.float_info.max:
                raise ValueError(f"{part} is too great a number")
        case ast.Name():
            pass
        case ast.UnaryOp(op=ast.UAdd() | ast.USub(), operand=operand):
            inner = [operand]
        case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div() | ast.Pow(), left=left, right=right):
            if isinstance(node.op, ast.Pow):
                _check_exponent(right, part)
            inner = [left, right]
        case ast.Call(func=ast.Name(id=name)):
            inner = _arguments(node, name, part)
        case ast.Attribute():
            raise ValueError(f'{part} is not allowed: a name with other characters is written tag("{part}")')
        case ast.BinOp(op=ast.BitXor()):
            raise ValueError(f"{part}: a power is written `**`")
        case ast.Constant(value=str()):
            raise ValueError(f"{part} is text: write tag({part}), metric({part}) or param({part})")
        case _:
            raise ValueError(f"{part} is not allowed: {GRAMMAR}")
    for each in inner:
        yield from _checked(each, text, depth + 1)
    if (reference := reference_of(node)) is not None:
        yield reference


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
        match call.args:
            case [ast.Constant(value=str() as text)] if text:
                return []
        raise ValueError(f'{part}: write {name}("..."), with a name in quotes')
    fewest, most = FUNCTIONS[name]
    if not fewest <= len(call.args) <= most:
        count = str(fewest) if fewest == most else f"{fewest} to {most}"
        raise ValueError(f"{part}: {name} has {count} argument{'s' if most > 1 else ''}, not {len(call.args)}")
    return call.args
