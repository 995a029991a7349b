"""The ways in which one place of a module is broken, each a mistake that a person could make."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Div,
}  # fmt: skip
TWINS = {"min": "max", "max": "min", "any": "all", "all": "any"}
SILENT = ("logger", "log", "logging", "warnings")
"""What is called of these is said to people; whether it is said is not what a mutant is about."""
DECLARES = ("field", "dataclass", "ConfigDict", "Field", "cast", "TypeVar")
"""Calls that declare something."""


@dataclass(frozen=True)
class Mutation:
    """One place of one file, and what it becomes."""

    file: str
    text: str
    node: ast.expr | ast.stmt
    what: str
    code: str
    names: tuple[str, ...]
    """For what is computed when the module is imported: the names that hold it, at which tests can notice it."""

    @property
    def line(self) -> int:
        return self.node.lineno

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def before(self) -> str:
        return self.text.splitlines()[self.line - 1].strip()

    @property
    def after(self) -> str:
        return self.source.splitlines()[self.line - 1].strip()

    @property
    def source(self) -> str:
        """The whole file, broken."""
        start = self._offset(self.node.lineno, self.node.col_offset)
        assert self.node.end_lineno is not None
        assert self.node.end_col_offset is not None
        end = self._offset(self.node.end_lineno, self.node.end_col_offset)
        code = f"({self.code})" if isinstance(self.node, ast.expr) else self.code
        return self.text[:start] + code + self.text[end:]

    @property
    def compiles(self) -> bool:
        try:
            compile(self.source, self.file, "exec")
        except SyntaxError:
            return False
        return True

    def _offset(self, line: int, column: int) -> int:
        """The place of a column, which counts bytes, in the whole text."""
        lines = self.text.splitlines(keepends=True)
        return sum(map(len, lines[: line - 1])) + len(lines[line - 1].encode()[:column].decode())


def mutations(project: Path, file: Path) -> Iterator[Mutation]:
    """Every mutation of one module."""
    text = (project / file).read_text()
    for node, names in _places(ast.parse(text).body, (), at_import=True):
        for place, what, broken in _broken(node):
            yield Mutation(str(file), text, place, what, ast.unparse(broken), names)


Place = tuple["ast.expr | ast.stmt", tuple[str, ...]]


def _places(nodes: Iterable[ast.AST], names: tuple[str, ...], *, at_import: bool) -> Iterator[Place]:
    """The nodes that a mutation can break, and the names that hold what an import computes."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            defaults = [*node.args.defaults, *(one for one in node.args.kw_defaults if one is not None)]
            yield from _places(defaults, (f"{node.name}(",) if at_import else names, at_import=at_import)
            yield from _places(node.body, (), at_import=False)
        elif isinstance(node, ast.ClassDef):
            yield from _places(node.body, (), at_import=at_import)
        elif isinstance(node, ast.AnnAssign):
            own = _names([node.target]) if at_import else ()
            yield from _places([node.value] if node.value else [], own, at_import=at_import)
        elif isinstance(node, ast.expr | ast.stmt) and not _is_left_out(node):
            own = _names(node.targets) if at_import and isinstance(node, ast.Assign) else names
            yield node, own
            yield from _places(ast.iter_child_nodes(node), own, at_import=at_import)
        elif isinstance(node, ast.keyword | ast.comprehension | ast.ExceptHandler | ast.withitem | ast.match_case):
            yield from _places(ast.iter_child_nodes(node), names, at_import=at_import)


def _is_left_out(node: ast.expr | ast.stmt) -> bool:
    """Whether nothing here decides: what is for types only, declares a field, or words what an error or a log says."""
    match node:
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Raise() | ast.Assert() | ast.Import() | ast.ImportFrom():
            return True
        case ast.JoinedStr():
            return True  # its places are not exact in Python 3.11
        case ast.Call():
            return not _called(node).isdisjoint(DECLARES)
        case ast.Expr(value=ast.Call() as call):
            return not _called(call).isdisjoint(SILENT)
    return False


def _broken(node: ast.expr | ast.stmt) -> Iterator[tuple[ast.expr | ast.stmt, str, ast.AST]]:
    """What is replaced, in words, and by what."""
    if isinstance(node, ast.If):
        yield node.test, "condition turned", _not(node.test)
        yield node.test, "condition never", ast.Constant(False)
    else:
        broken = _broken_expression(node) if isinstance(node, ast.expr) else _broken_statement(node)
        yield from ((node, what, other) for what, other in broken)


def _broken_expression(node: ast.expr) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.Compare(ops=[op]) if type(op) in COMPARISONS:
            other = COMPARISONS[type(op)]
            yield f"{type(op).__name__} to {other.__name__}", ast.Compare(node.left, [other()], node.comparators)
        case ast.BoolOp(op=op, values=values):
            turned = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield f"{type(op).__name__} to {type(turned).__name__}", ast.BoolOp(turned, values)
            for number, value in enumerate(values, 1):
                rest = [one for one in values if one is not value]
                yield f"operand {number} gone", rest[0] if len(rest) == 1 else ast.BoolOp(op, rest)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "not gone", operand
        case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC and not _is_text(left, right):
            changed = ARITHMETIC[type(op)]
            yield f"{type(op).__name__} to {changed.__name__}", ast.BinOp(left, changed(), right)
        case ast.Constant(value=bool() as value):
            yield f"{value} to {not value}", ast.Constant(not value)
        case ast.Constant(value=int() | float() as number):
            more = number + 1 if abs(number) < 10 and number == int(number) else number * 2
            yield f"{number} to {more}", ast.Constant(more)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield "condition turned", ast.IfExp(_not(test), body, orelse)
        case ast.Call(func=ast.Name(id=name)) if name in TWINS:
            yield f"{name} to {TWINS[name]}", ast.Call(ast.Name(TWINS[name]), node.args, node.keywords)


def _broken_statement(node: ast.stmt) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield "returns None", ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call() | ast.Await() | ast.Yield() | ast.YieldFrom()):
            yield "statement gone", ast.Pass()
        case ast.Continue():
            yield "continue to break", ast.Break()
        case ast.Break():
            yield "break to continue", ast.Continue()


def _names(targets: list[ast.expr]) -> tuple[str, ...]:
    return tuple(node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name))


def _called(call: ast.Call) -> set[str]:
    """The names that a call is made by: `self`, `log` and `warning`."""
    names, function = set(), call.func
    while isinstance(function, ast.Attribute):
        names.add(function.attr)
        function = function.value
    return names | ({function.id} if isinstance(function, ast.Name) else set())


def _not(test: ast.expr) -> ast.expr:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return test.operand
    return ast.UnaryOp(ast.Not(), test)


def _is_text(*nodes: ast.expr) -> bool:
    return any(
        isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
        for node in nodes
    )
