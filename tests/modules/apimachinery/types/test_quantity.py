"""Quantities are read, rounded and written as Kubernetes does it."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.apimachinery.types import (
    QuantityError,
    format_binary_quantity,
    format_quantity,
    milli_value,
    parse_quantity,
    whole_value,
)
from modules.apimachinery.types.quantity import canonical_quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", Fraction(0)),
        ("100m", Fraction(1, 10)),
        ("1", Fraction(1)),
        (2, Fraction(2)),
        (0.5, Fraction(1, 2)),
        ("1.5", Fraction(3, 2)),
        ("1.", Fraction(1)),
        (".5", Fraction(1, 2)),
        ("+3", Fraction(3)),
        ("-3", Fraction(-3)),
        ("1k", Fraction(1000)),
        ("1Ki", Fraction(1024)),
        ("1.5Gi", Fraction(3 * 2**29)),
        ("2Ti", Fraction(2**41)),
        ("1Pi", Fraction(2**50)),
        ("1Ei", Fraction(2**60)),
        ("3M", Fraction(3_000_000)),
        ("4G", Fraction(4 * 10**9)),
        ("1E", Fraction(10**18)),
        ("1e3", Fraction(1000)),
        ("1E3", Fraction(1000)),
        ("12e-1", Fraction(12, 10)),
        ("100u", Fraction(1, 10_000)),
        ("1n", Fraction(1, 10**9)),
        ("0.1n", Fraction(1, 10**9)),
        ("-0.1n", Fraction(-1, 10**9)),
        ("100E", Fraction(2**63 - 1)),
        ("24684092Ki", Fraction(24684092 * 1024)),
    ],
)
def test_reads_every_notation_exactly(text: str | float, value: Fraction) -> None:
    """Suffixes, exponents, the finest step and the largest value equal resource.ParseQuantity's."""
    assert parse_quantity(text) == value


@pytest.mark.parametrize(
    ("quantity", "text"),
    [
        ("0.5", "500m"), ("1024Mi", "1Gi"), ("1.5Gi", "1536Mi"), ("1536Ki", "1536Ki"), ("0.5Ki", "512"), (2, "2"),
        ("0Gi", "0"), ("0.3Gi", "322122547200m"), ("1023Ki", "1023Ki"), ("100m", "100m"), ("1000m", "1"),
        ("1000", "1k"), ("512", "512"), ("1E", "1E"), ("1e3", "1e3"), ("1E3", "1e3"), ("1000e3", "1e6"),
        ("15e2", "1500"), ("12e-1", "1200e-3"), ("0e3", "0"), ("100E", "9223372036854775807"), ("-1.5", "-1500m"),
        ("0.1n", "1n"), ("0.1Ei", "115292150460684697600m"), ("0.5E", "500P"), (0.25, "250m"), ("x", "x"),
    ],
)  # fmt: skip
def test_quantities_are_stored_and_printed_as_kubernetes_does(quantity: str | float, text: str) -> None:
    """The suffix stays of its family, and no precision is lost; of an unreadable one the text."""
    assert canonical_quantity(quantity) == text
    assert canonical_quantity(text) == text


@pytest.mark.parametrize(
    "text", ["", "m", "1.2.3", "1 Gi", "1gi", "1K", "Ki", "e3", "1e", "0x10", "١", "1e999", "1" * 101, ".", "nan"]
)
def test_refuses_other_texts_than_quantities(text: str) -> None:
    """A text outside the grammar is an error that shows it, never a guess."""
    with pytest.raises(QuantityError, match="cannot read the quantity"):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("text", "whole", "milli"),
    [("100m", 1, 100), ("1.0001", 2, 1001), ("-1.5", -2, -1500), ("1", 1, 1000), ("1n", 1, 1)],
)
def test_rounds_away_from_zero(text: str, whole: int, milli: int) -> None:
    """Both roundings of Kubernetes go away from zero, so that no request becomes nothing."""
    assert (whole_value(text), milli_value(text)) == (whole, milli)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Fraction(2), "2"),
        (Fraction(3, 2), "1500m"),
        (Fraction(24000), "24k"),
        (Fraction(0), "0"),
        (10**18, "1E"),
        (Fraction(-5, 10), "-500m"),
    ],
)
def test_writes_the_shortest_decimal_form(value: Fraction, text: str) -> None:
    """Trailing thousands become a suffix, nothing is lost."""
    assert format_quantity(value) == text


@pytest.mark.parametrize(("value", "text"), [(0, "0"), (1023, "1023"), (1024, "1Ki"), (24684092 * 1024, "24684092Ki")])
def test_writes_bytes_in_binary(value: int, text: str) -> None:
    """Memory is written as node status shows it."""
    assert format_binary_quantity(value) == text


@given(st.integers(min_value=-(10**18), max_value=10**18), st.sampled_from([1, 1000, 10**6, 10**9]))
def test_a_formatted_quantity_parses_to_the_same_value(number: int, divisor: int) -> None:
    """Formatting and parsing are inverse for every value down to a billionth."""
    value = Fraction(number, divisor)
    assert parse_quantity(format_quantity(value)) == value


@given(st.integers(min_value=0, max_value=2**62))
def test_binary_form_reads_back(value: int) -> None:
    """The binary form loses nothing either."""
    assert whole_value(format_binary_quantity(value)) == value
