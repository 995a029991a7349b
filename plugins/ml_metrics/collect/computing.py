"""The arithmetic of expressions, on numbers and on whole columns of points."""

from __future__ import annotations

import ast
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.config.formula import reference_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from ml_metrics.config.formula import Reference

    Values = NDArray[np.float64]

BINARY: dict[type[ast.operator], Callable[[Values, Values], Values]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.Pow: np.power,
}
FUNCTIONS: dict[str, Callable[..., Values]] = {
    "min": lambda *values: reduce(np.minimum, values),
    "max": lambda *values: reduce(np.maximum, values),
    "abs": np.abs,
    "sqrt": np.sqrt,
    "log": np.log,
    "exp": np.exp,
}


def computed(tree: ast.expr, values: Mapping[Reference, Values]) -> Values:
    """Return the value of a valid expression.

    A result that is not finite at any place of the expression stays so: `1 / (1 / 0)` is not 0.
    """
    with np.errstate(all="ignore"):
        return _computed(tree, values)


def _computed(node: ast.expr, values: Mapping[Reference, Values]) -> Values:
    if (reference := reference_of(node)) is not None:
        return _finite(values[reference])
    match node:
        case ast.Constant(value=int() | float() as number):
            return np.array(number, np.float64)
        case ast.UnaryOp(op=op, operand=operand):
            value = _computed(operand, values)
            return -value if isinstance(op, ast.USub) else value
        case ast.BinOp(op=op, left=left, right=right):
            one, other = _computed(left, values), _computed(right, values)
            return _finite(BINARY[type(op)](one, other), one, other)
        case ast.Call(func=ast.Name(id=name), args=args):
            given = [_computed(argument, values) for argument in args]
            return _finite(FUNCTIONS[name](*given), *given)
        case _:
            raise AssertionError(ast.dump(node))


def _finite(result: Values, *given: Values) -> Values:
    """Return the result with NaN wherever it, or a number that it was made from, is not finite."""
    is_finite = reduce(np.logical_and, map(np.isfinite, given), np.isfinite(result))
    return np.where(is_finite, result, np.nan)
