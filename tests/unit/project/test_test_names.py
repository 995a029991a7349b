"""The same tests are collected in every process: else workers of pytest-xdist refuse to run them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from syntax import syntax_of

PROJECT = Path(__file__).parents[3]
FOLDERS = ("tests", "campaigns", "packages/local-kube/tests")
CHANCE = {
    *("urandom", "uuid1", "uuid4", "token_hex", "token_bytes", "token_urlsafe", "getpid", "id", "hash"),
    *("now", "utcnow", "today", "time", "time_ns", "monotonic", "gettempdir", "mkdtemp", "glob", "rglob", "iterdir"),
}
"""Calls whose result differs from process to process, or in its order."""


def differing(values: ast.expr, sets: set[str]) -> Iterator[str]:
    """Yield what differs from process to process in the parameters of a test. What is sorted has an order."""
    for node in walk(values):
        if isinstance(node, ast.Set | ast.SetComp) or (isinstance(node, ast.Name) and node.id in sets):
            yield f"the order of the set {ast.unparse(node)}"
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in CHANCE:
                yield f"{ast.unparse(node)}"
            elif name in {"set", "frozenset"}:
                yield f"the order of {ast.unparse(node)}"


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that decide about order and content: not below `sorted`, `len` or `in`."""
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") in {"sorted", "len", "any", "all", "max", "min"}:
        return
    if isinstance(node, ast.Compare | ast.Lambda):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from walk(child)


def parameters(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield the lists of parameters in `parametrize` and of fixtures."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr == "parametrize" and len(node.args) > 1:
                yield node.args[1]
            elif node.func.attr == "fixture":
                yield from (word.value for word in node.keywords if word.arg == "params")


def listed(tree: ast.Module, values: ast.expr) -> Iterator[str]:
    # a set as one parameter among others has no order that counts: only the list itself, and what is unpacked into it
    outer = [one.value if isinstance(one, ast.Starred) else one for one in getattr(values, "elts", [])]
    sets = {
        name.id
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Set | ast.SetComp)
        for name in node.targets
        if isinstance(name, ast.Name)
    }
    if isinstance(values, ast.List | ast.Tuple):
        for one, starred in zip(outer, values.elts, strict=True):
            found = differing(one, sets)
            yield from found if isinstance(starred, ast.Starred) else (what for what in found if "order" not in what)
    else:
        yield from differing(values, sets)


def test_no_parameter_of_a_test_differs_from_process_to_process() -> None:
    for folder in FOLDERS:
        for path in sorted((PROJECT / folder).rglob("*.py")):
            text = path.read_text()
            if "parametrize" not in text and "params=" not in text:
                continue
            tree = syntax_of(text)
            for values in parameters(tree):
                assert list(listed(tree, values)) == [], f"{path.relative_to(PROJECT)}:{values.lineno}"


@pytest.mark.parametrize(
    ("values", "differs"),
    [
        ("[1, os.urandom(5)]", True),
        ("[uuid.uuid4().hex]", True),
        ("{1, 2}", True),
        ("set(names)", True),
        ("NAMES", True),
        ("list(NAMES)", True),
        ("[*NAMES, 1]", True),
        ("sorted(NAMES)", False),
        ("sorted(folder.glob('*'))", False),
        ("[({1, 2}, 3)]", False),
        ("[len(NAMES), random.Random(7).randbytes(9)]", False),
        ("OTHERS", False),
    ],
)
def test_what_differs_is_found(values: str, differs: bool) -> None:
    tree = ast.parse("NAMES = {'a', 'b'}\nOTHERS = {'a': 1}\n")
    assert bool(list(listed(tree, ast.parse(values, mode="eval").body))) == differs
