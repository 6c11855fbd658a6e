"""The grammar of label selectors, with the refusals of apimachinery's `labels.Parse`.

A selector is read in one pass over its tokens, which are words and signs. `in` and `notin` are operators after a key
and words everywhere else.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from edged.validation.names import faults_of_label_key, faults_of_label_value

MOST_REQUIREMENTS: Final = 256
"""Conditions of one selector; each is checked for each object."""

_TOKEN: Final = re.compile(r"[ \t\r\n]*([^ \t\r\n=!(),><]+|==|!=|[=!(),><]|$)")
_END: Final = ""
_SIGNS: Final = frozenset("=!(),><") | {"==", "!=", _END}
_SETS: Final = ("in", "notin")
_EQUALS: Final = ("=", "==", "!=")
_COMPARISONS: Final = (">", "<")
_OPERATORS: Final = "in, notin, =, ==, !=, gt, lt"
_MOST_VALUES: Final = 4096
"""Values in one pair of parentheses."""
_SHOWN: Final = 200
"""Characters of a word in a refusal."""
_LONGEST_NUMBER: Final = 19


class Requirement(NamedTuple):
    """One condition on a label."""

    key: str
    holds: Callable[[str | None], bool]
    """Takes the label's value, None without the label."""


def read_requirements(text: str) -> Iterator[Requirement]:
    """Yield the conditions of a label selector.

    Raises:
        ValueError: it is none; the text says where and why, in an API server's words.
    """
    tokens = _Tokens(text)
    count = 0
    while not tokens.is_at_end:
        if not (tokens.is_word or tokens.next == "!"):
            raise ValueError(f"found '{tokens.next}', expected: !, identifier, or 'end of string'")
        count += 1
        if count > MOST_REQUIREMENTS:
            raise ValueError(f"unable to parse requirement: a selector has at most {MOST_REQUIREMENTS}")
        try:
            yield _requirement(tokens)
        except ValueError as error:
            raise ValueError(f"unable to parse requirement: {error}") from error
        _take_comma(tokens)


class _Tokens:
    """The tokens of a selector; `next` is the next token, cut to the length that a message may show."""

    def __init__(self, text: str) -> None:
        self._found = (match[1] for match in _TOKEN.finditer(text))
        self._next = next(self._found, _END)

    @property
    def next(self) -> str:
        return self._next[:_SHOWN]

    @property
    def is_word(self) -> bool:
        return self._next not in _SIGNS

    @property
    def is_at_end(self) -> bool:
        return self._next == _END

    def take(self) -> str:
        taken, self._next = self._next, next(self._found, _END)
        return taken


def _take_comma(tokens: _Tokens) -> None:
    if tokens.is_at_end:
        return
    if tokens.next != ",":
        raise ValueError(f"found '{tokens.next}', expected: ',' or 'end of string'")
    tokens.take()
    if not (tokens.is_word or tokens.next == "!"):
        raise ValueError(f"found '{tokens.next}', expected: identifier after ','")


def _requirement(tokens: _Tokens) -> Requirement:
    is_negated = tokens.next == "!"
    if is_negated:
        tokens.take()
    if not tokens.is_word:
        raise ValueError(f"found '{tokens.next}', expected: identifier")
    key = tokens.take()
    _check("<nil>", key, faults_of_label_key(key))
    if is_negated:
        return Requirement(key, lambda value: value is None)
    if tokens.is_at_end or tokens.next == ",":
        return Requirement(key, lambda value: value is not None)
    return _restriction(key, tokens)


def _restriction(key: str, tokens: _Tokens) -> Requirement:
    """Return the condition of an operator and its values."""
    operator = tokens.next
    if operator not in (*_SETS, *_EQUALS, *_COMPARISONS):
        raise ValueError(f"found '{operator}', expected: {_OPERATORS}")
    tokens.take()
    values = sorted(_values(tokens)) if operator in _SETS else [_exact_value(tokens)]
    for number, value in enumerate(values):
        if operator in _COMPARISONS:
            _check_number(number, value)
        _check(f"values[{number}][{key}]", value, faults_of_label_value(value))
    if operator in _COMPARISONS:
        bound = int(values[0])
        return Requirement(key, lambda value: _compares(value, operator, bound))
    wanted, is_wanted = frozenset(values), operator not in ("notin", "!=")
    return Requirement(key, lambda value: (value in wanted) is is_wanted)


def _values(tokens: _Tokens) -> set[str]:
    if tokens.next != "(":
        raise ValueError(f"found '{tokens.next}' expected: '('")
    tokens.take()
    if not (tokens.is_word or tokens.next in (",", ")")):
        raise ValueError(f"found '{tokens.next}', expected: ',', ')' or identifier")
    return set(_listed(tokens))


def _listed(tokens: _Tokens) -> Iterator[str]:
    """Yield the values up to the closing parenthesis; nothing between two commas is the empty value."""
    for _ in range(_MOST_VALUES):
        is_word = tokens.is_word
        yield tokens.take() if is_word else ""
        if tokens.next == ")":
            tokens.take()
            return
        if tokens.next != ",":
            wanted = "',' or ')'" if is_word else "',', or identifier"
            raise ValueError(f"found '{tokens.next}', expected: {wanted}")
        tokens.take()
    raise ValueError(f"a set has at most {_MOST_VALUES} values")


def _exact_value(tokens: _Tokens) -> str:
    if tokens.is_at_end or tokens.next == ",":
        return ""
    if not tokens.is_word:
        raise ValueError(f"found '{tokens.next}', expected: identifier")
    return tokens.take()


def _check(field: str, value: str, faults: Iterator[str]) -> None:
    found = "; ".join(faults)
    if found:
        raise ValueError(f'{field}: Invalid value: "{value[:_SHOWN]}": {found}')


def _check_number(number: int, value: str) -> None:
    digits = value.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= _LONGEST_NUMBER):
        why = "for 'Gt', 'Lt' operators, the value must be an integer"
        raise ValueError(f'values[{number}]: Invalid value: "{value[:_SHOWN]}": {why}')


def _compares(value: str | None, operator: str, bound: int) -> bool:
    try:
        number = int(value or "")
    except ValueError:
        return False
    return number > bound if operator == ">" else number < bound
