"""`${oc.env:…}` without OmegaConf; the expected values were taken from OmegaConf 2.4.0."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from returns.pipeline import is_successful

from clinebox.domain.secrets.interpolation import has_interpolation, resolve

ENV = {"A": "val", "N": "A", "EMPTY": "", "LITERAL": "${oc.env:A}"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("plain $ text", "plain $ text"),
        ("", ""),
        ("${oc.env:A}", "val"),
        ("${ oc.env:A }", "val"),
        ("${oc.env: A , other}", "val"),
        ("x${oc.env:A}y${oc.env:A}", "xvalyval"),
        ("$${oc.env:A}", "$val"),
        ("${oc.env:B,def}", "def"),
        ("${oc.env:B, def }", "def"),
        ("${oc.env:B,a b}", "a b"),
        ("${oc.env:B,}", ""),
        ("${oc.env:B,''}", ""),
        ("${oc.env:EMPTY,def}", ""),
        ("${oc.env:LITERAL}", "${oc.env:A}"),
        ("${oc.env:B,http://host:1/v1}", "http://host:1/v1"),
        ("${oc.env:B,${oc.env:A}}", "val"),
        ("${oc.env:B,${oc.env:C,${oc.env:A}}}", "val"),
        ("${oc.env:B,${oc.env:C,last}}", "last"),
        ("${oc.env:B,pre${oc.env:A}post}", "prevalpost"),
        ("${oc.env:B,'pre${oc.env:A}'}", "preval"),
        ("${oc.env:${oc.env:N}}", "val"),
        ("${oc.env:'A'}", "val"),
        ("${oc.env:B,'a,b'}", "a,b"),
        ('${oc.env:B,"a}b"}', "a}b"),
        ("${oc.env:B,'it\\'s'}", "it's"),
        ("${oc.env:B,a\\,b}", "a,b"),
        ("${oc.env:B,12345}", "12345"),
        ("${oc.env:B,010}", "010"),
        ("${oc.env:B,'1.50'}", "1.50"),
        ("${oc.env:B,None}", "None"),
        ("\\${oc.env:A}", "${oc.env:A}"),
        ("\\\\${oc.env:A}", "\\val"),
        # Beyond OmegaConf, which refuses these.
        ("${oc.env:A,${oc.env:C}}", "val"),
        ("${oc.env:B,http://host/?a=b}", "http://host/?a=b"),
    ],
)
def test_what_resolves(text: str, value: str) -> None:
    assert resolve(text, ENV).unwrap() == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("${oc.env:B}", "environment variable B is not set"),
        ("${oc.env:B,${oc.env:C}}", "B: environment variable C is not set"),
        ("${oc.env:A", "a `${` is not closed"),
        ("${", "a `${` is not closed"),
        ("${oc.env:B,'a}", "a `${` is not closed"),
        ("${foo.bar}", "${foo.bar}: only ${oc.env:VAR} is resolved"),
        ("${oc.decode:${oc.env:A}}", "${oc.decode}: only ${oc.env:VAR} is resolved"),
        ("${oc.env:}", "${oc.env:}: a variable's name is missing"),
        ("${oc.env:B,a,b}", "${oc.env:B}: a default with a comma must be quoted"),
        ("${oc.env:B,'a'b}", "B: text stands beside a quoted default"),
        ("${oc.env:B,null}", "B: the default is no string to OmegaConf; quote it"),
        ("${oc.env:B,1.50}", "B: the default is no string to OmegaConf; quote it"),
        ("${oc.env:B,true}", "B: the default is no string to OmegaConf; quote it"),
        ("${oc.env:B,{a: 1}}", "B: the default is no string to OmegaConf; quote it"),
        ("${oc.env:A B}", "environment variable A B is not set"),
        ("${oc.env:\n}", "environment variable '\\n' is not set"),
        ("${oc.env:B," * 40 + "x" + "}" * 40, None),
    ],
)
def test_what_does_not_resolve_says_why(text: str, reason: str | None) -> None:
    told = resolve(text, ENV).failure().reason
    assert told == reason if reason is not None else told.endswith("nested deeper than 32")


def test_a_reason_holds_no_default_and_is_bounded() -> None:
    assert "sk-live" not in resolve("${oc.env:B,sk-live,sk-live}", {}).failure().reason
    nested = resolve("${oc.env:${oc.env:KEY}}", {"KEY": "sk-live"}).failure().reason
    assert nested == "environment variable with a nested name is not set"
    assert len(resolve("${" + "x" * 10_000 + "}", {}).failure().reason) < 120


@given(st.text("${}oc.env:AB,\"'\\ x", max_size=40))
@example("${oc.env:A," * 500)
@example("\\" * 99 + "${oc.env:A}")
def test_no_text_makes_it_raise_and_a_text_without_interpolation_is_itself(text: str) -> None:
    result = resolve(text, ENV)
    if "${" not in text:
        assert result.unwrap() == text
    assert is_successful(result) or result.failure().reason


@given(st.integers(0, 8))
def test_backslashes_before_an_interpolation_come_in_pairs(count: int) -> None:
    text = "\\" * count + "${oc.env:A}"
    assert has_interpolation(text) is (count % 2 == 0)
    expected = "val" if count % 2 == 0 else "${oc.env:A}"
    assert resolve(text, ENV).unwrap() == "\\" * (count // 2) + expected
