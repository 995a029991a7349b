"""What an expression may contain; anything else, however hostile, is an error at once."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.config.formula import MAX_DEPTH, MAX_LENGTH, Of, Reference, formula


def references(text: str) -> list[tuple[str, str]]:
    return [(one.of.value, one.name) for one in formula(text).references]


def test_what_an_expression_refers_to() -> None:
    assert references("a + b * a") == [("name", "a"), ("name", "b")]
    assert references("tag('perf/step time') / metric(\"x\") ** 2 - param('b')") == [
        ("tag", "perf/step time"), ("metric", "x"), ("param", "b"),
    ]  # fmt: skip
    assert references("max(1, min(2, -abs(x)), sqrt(log(exp(3))))") == [("name", "x")]
    assert formula("a\n / b\n").references == (Reference(Of.ANY, "a"), Reference(Of.ANY, "b"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is empty"),
        ("a b", "near character"),
        ("9**9**9", "an exponent is a number from -100 to 100"),
        ("2 ** x", "an exponent is a number"),
        ("2 ** 101", "an exponent is a number"),
        ("2 ** True", "an exponent is a number"),
        ("(" * 10**6 + "1" + ")" * 10**6, "characters; 1,000 are allowed"),
        ("(" * 400 + "1" + ")" * 400, "is not an expression"),
        ("-" * 900 + "1", f"nested more than {MAX_DEPTH} deep"),
        ("+".join("a" * 400), f"nested more than {MAX_DEPTH} deep"),
        ("1e999", "too great a number"),
        ("1" * 400, "too great a number"),
        ("True", "is not allowed"),
        ("1j", "is not allowed"),
        ("'text'", "is text: write tag('text')"),
        ("a ^ 2", "a power is written `**`"),
        ("a // b", "is not allowed"),
        ("a < b", "is not allowed"),
        ("a if b else c", "is not allowed"),
        ("[a]", "is not allowed"),
        ("a[0]", "is not allowed"),
        ("lambda: 1", "is not allowed"),
        ("(a := 1)", "is not allowed"),
        ("f'{a}'", "is not allowed"),
        ("a.b", 'is written tag("a.b")'),
        ("().__class__.__bases__", "is not allowed"),
        ("__import__('os').system('x')", "is not allowed"),
        ("__import__('os')", "unknown function '__import__'"),
        ("sqr(2)", "did you mean 'sqrt'?"),
        ("sqrt(1, 2)", "sqrt has 1 argument, not 2"),
        ("max(1)", "max has 2 to 20 arguments, not 1"),
        ("max(*a)", "one by one"),
        ("max(1, b=2)", "one by one"),
        ("tag(x)", "with a name in quotes"),
        ("tag()", "with a name in quotes"),
        ("tag('')", "with a name in quotes"),
        ("tag('a', 'b')", "with a name in quotes"),
        ("a # b", "has a comment"),
        ("a # b\n + c", "has a comment"),
        ("\x00", "is not an expression"),
        ("\ud800", "is not an expression"),
    ],
)
def test_what_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011  (the message is compared below)
        formula(text)
    assert reason in str(caught.value)
    assert len(str(caught.value)) < 300


@given(st.text(max_size=MAX_LENGTH) | st.text("()+-*/ab1.,'\"_#[]{}:=\\\n ", max_size=60))
def test_any_text_is_an_expression_or_an_error(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            found = formula(text)
        except ValueError:
            return
    assert all(one.name for one in found.references)


def test_a_number_sign_in_a_name_is_no_comment() -> None:
    assert references("tag('a#b') * 2") == [("tag", "a#b")]
