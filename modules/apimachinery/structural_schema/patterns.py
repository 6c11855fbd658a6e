"""Regular expressions of schemas, matched in linear time as Go's regexp does (Thompson's construction).

Python's `re` backtracks: one pattern of a CustomResourceDefinition could occupy the API server for ever. What a
character does to a set of states is kept for the next time (a lazy automaton), and the work of a match is reported.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple

from modules.apimachinery.computed import charge_steps

STATES: Final = 2000
"""States of one pattern."""
_STATES_IN_STEP: Final = 32
"""States that are looked at in a step."""
_KNOWN_IN_STEP: Final = 64
"""Characters in a step of which it is known what they do."""
_MOST_KEPT: Final = 8000
"""States of what is kept of a pattern, in all sets together."""

_ANY: Final = re.compile("[^\n]")
_ALL: Final = re.compile(".", re.DOTALL)
_SHORTHANDS: Final = {"d": "[0-9]", "w": "[0-9A-Za-z_]", "s": "[\t\n\f\r ]", "D": "[^0-9]", "W": "[^0-9A-Za-z_]",
                      "S": "[^\t\n\f\r ]"}  # fmt: skip
_COUNT: Final = re.compile(r"\{([0-9]{1,4})(,([0-9]{0,4}))?\}")
_CLASS: Final = re.compile(r"\[\^?\]?(?:\\.|\[:\^?[a-z]+:\]|[^\]\\])*\]")
_IN_CLASS: Final = re.compile(r"\\.|\[(?::([a-z]+):\])?", re.DOTALL)
_FLAGS: Final = re.compile(r"\(\?([isU]*)(?:-([isU]+))?(?=[:)])")
"""Flags for the rest of a group, `(?i)`, or for a group of their own, `(?i:…)`; U, lazy, changes nothing here."""
_POSIX: Final = {"alnum": "0-9A-Za-z", "alpha": "A-Za-z", "digit": "0-9", "lower": "a-z", "upper": "A-Z",
                 "word": "0-9A-Za-z_", "xdigit": "0-9A-Fa-f", "space": r"\t\n\v\f\r ", "blank": r"\t ",
                 "punct": r"!-/:-@\[-`{-~", "print": " -~", "graph": "!-~", "cntrl": r"\x00-\x1f\x7f",
                 "ascii": r"\x00-\x7f"}  # fmt: skip
_CONTROLS: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}
_START: Final = "start"
_END: Final = "end"


class PatternError(ValueError):
    """A pattern cannot be used: it is no regular expression, too large, or has a part that is not linear."""


class _State(NamedTuple):
    test: "re.Pattern[str] | str | None"
    """A class of characters, an anchor, or None for an empty step."""
    after: list[int]


class Pattern:
    """A compiled regular expression.

    Raises:
        PatternError: see there.
    """

    def __init__(self, text: str) -> None:
        if len(text) > STATES:
            raise PatternError(f"a pattern has at most {STATES} characters")
        self._text = text
        self._at = 0
        self._depth = 0
        self._flags = frozenset[str]()
        self._states: list[_State] = []
        self._classes: dict[tuple[int, frozenset[str]], tuple[re.Pattern[str], int]] = {}
        """By its place and the flags, a class of characters and its end: a repeated one is read once."""
        self._moves: dict[tuple[frozenset[int], str], frozenset[int]] = {}
        self._kept = 0
        self._first, last = self._alternatives()
        if self._at < len(text):
            raise PatternError(f"unexpected {text[self._at]!r}")
        self._last = self._state(None)
        self._states[last].after.append(self._last)
        self._begin = self._closure({self._first}, is_start=True)

    @property
    def states(self) -> int:
        """How many states it has: the work of its compilation."""
        return len(self._states)

    def search(self, value: str, charge: Callable[[int], None] = lambda _steps: None) -> bool:
        """Return whether the pattern is found in a text.

        Args:
            value: the text.
            charge: called with the steps that the match takes, now and then; may raise an error, which ends it.
        """
        present, work = self._begin, 0
        for at, char in enumerate(value):
            if self._last in present:
                return True
            if at % _KNOWN_IN_STEP == 0:
                work += _STATES_IN_STEP
            after = self._moves.get((present, char))
            if after is None:
                after = self._move(present, char)
                work += len(present) + len(after)
            if work >= _STATES_IN_STEP:
                charge(work // _STATES_IN_STEP)
                work %= _STATES_IN_STEP
            present = after
        charge((work + len(present)) // _STATES_IN_STEP)
        return self._last in self._closure(present, is_start=not value, is_end=True)

    def _move(self, present: frozenset[int], char: str) -> frozenset[int]:
        """Return the states after a character, and keep them."""
        reached = {
            after
            for state in present
            for after in self._states[state].after
            if isinstance(test := self._states[state].test, re.Pattern) and test.match(char)
        }
        found = self._closure(reached | {self._first})
        self._kept += len(present) + len(found)
        if self._kept > _MOST_KEPT:
            self._moves, self._kept = {}, 0
        self._moves[present, char] = found
        return found

    def _closure(
        self, states: set[int] | frozenset[int], *, is_start: bool = False, is_end: bool = False
    ) -> frozenset[int]:
        found, waiting = set(states), list(states)
        while waiting:
            test, after = self._states[waiting.pop()]
            if test is None or (test == _START and is_start) or (test == _END and is_end):
                waiting += [state for state in after if state not in found]
                found.update(after)
        return frozenset(found)

    def _state(self, test: "re.Pattern[str] | str | None", *after: int) -> int:
        if len(self._states) >= STATES:
            raise PatternError("the pattern is too large")
        self._states.append(_State(test, list(after)))
        return len(self._states) - 1

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _alternatives(self) -> tuple[int, int]:
        self._depth += 1
        if self._depth > 50:
            raise PatternError("the pattern is nested too deeply")
        ways = [self._sequence()]
        while self._peek() == "|":
            self._at += 1
            ways.append(self._sequence())
        self._depth -= 1
        last = self._state(None)
        for _, end in ways:
            self._states[end].after.append(last)
        return self._state(None, *(first for first, _ in ways)), last

    def _sequence(self) -> tuple[int, int]:
        first = last = self._state(None)
        while self._peek() not in ("", "|", ")"):
            if self._set_flags(")"):
                continue
            begin, end = self._repeated()
            self._states[last].after.append(begin)
            last = end
        return first, last

    def _repeated(self) -> tuple[int, int]:
        began = self._at
        part = self._atom()
        least, most = self._counts()
        if (least, most) == (1, 1):
            return part
        ended = self._at
        first = last = self._state(None)
        ends: list[int] = []
        for count in range(max(least, 1) if most is None else most):
            self._at = began
            begin, end = self._atom()
            if count >= least:
                ends.append(last)
            self._states[last].after.append(begin)
            last = end if most is not None else self._state(None)
            if most is None:
                self._states[end].after.append(last)
                if count == max(least, 1) - 1:
                    self._states[last].after.append(begin)
        self._at = ended
        out = self._state(None)
        for state in (last, *ends):
            self._states[state].after.append(out)
        return first, out

    def _counts(self) -> tuple[int, int | None]:
        """Return the least and most repetitions of the part before; most is None without a bound."""
        known: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        counts = known.get(self._peek())
        if counts is not None:
            self._at += 1
        elif found := _COUNT.match(self._text, self._at):
            self._at = found.end()
            least = int(found[1])
            counts = least, (int(found[3]) if found[3] else None) if found[2] else least
            if (counts[1] or 0) > 1000 or least > 1000:
                raise PatternError("invalid repeat count")
        else:
            return 1, 1
        if self._peek() == "?":
            self._at += 1
        if self._peek() and self._peek() in "*+":
            raise PatternError("invalid nested repetition operator")
        return counts

    def _atom(self) -> tuple[int, int]:
        char = self._peek()
        if char == "(":
            return self._group()
        if char == "[":
            place = self._at, self._flags
            if place not in self._classes:
                self._classes[place] = self._class()
            test, self._at = self._classes[place]
            return self._test(test)
        self._at += 1
        if char in ("^", "$"):
            return self._test(_START if char == "^" else _END)
        if char == "\\":
            return self._escape()
        if char in ("*", "+", "?"):
            raise PatternError("missing argument to repetition operator")
        if char == ".":
            return self._test(_ALL if "s" in self._flags else _ANY)
        return self._test(self._compiled(re.escape(char)))

    def _class(self) -> "tuple[re.Pattern[str], int]":
        """Return the class of characters that begins here, and its end."""
        found = _CLASS.match(self._text, self._at)
        if found is None:
            raise PatternError("a class of characters cannot be read")
        return self._compiled("[" + _IN_CLASS.sub(_part_of_class, found[0][1:])), found.end()

    def _set_flags(self, end: str) -> bool:
        """Read flags that end with a character, and return whether there were any."""
        found = _FLAGS.match(self._text, self._at)
        if found is None or found[0] == "(?" or self._text[found.end()] != end:
            return False
        self._flags = (self._flags | set(found[1])) - set(found[2] or "")
        self._at = found.end() + 1
        return True

    def _compiled(self, text: str) -> "re.Pattern[str]":
        try:
            return re.compile(text, re.ASCII | (re.IGNORECASE if "i" in self._flags else re.NOFLAG))
        except re.error as error:
            raise PatternError(str(error)) from error

    def _group(self) -> tuple[int, int]:
        before = self._flags
        if not self._set_flags(":"):
            opening = re.compile(r"\((?:\?:|\?P?<[A-Za-z_]\w*>)?(?!\?)").match(self._text, self._at)
            if opening is None:
                raise PatternError("a group of this form is not supported")
            self._at = opening.end()
        part = self._alternatives()
        self._flags = before
        if self._peek() != ")":
            raise PatternError("missing closing )")
        self._at += 1
        return part

    def _escape(self) -> tuple[int, int]:
        char = self._peek()
        self._at += 1
        if char in ("A", "z"):
            return self._test(_START if char == "A" else _END)
        if char in _SHORTHANDS:
            return self._test(self._compiled(_SHORTHANDS[char]))
        if char in _CONTROLS:
            return self._test(re.compile(_CONTROLS[char]))
        if not char or char.isalnum():
            raise PatternError(f"the escape \\{char} is not supported")
        return self._test(self._compiled(re.escape(char)))

    def _test(self, test: "re.Pattern[str] | str") -> tuple[int, int]:
        last = self._state(None)
        return self._state(test, last), last


def _part_of_class(found: "re.Match[str]") -> str:
    """Return a part of a class as `re` has it: an escape as it is, a bracket escaped, and a class of POSIX."""
    if found[1] is None:
        return "\\[" if found[0] == "[" else found[0]
    if found[1] not in _POSIX:
        raise PatternError(f"invalid character class range: [:{found[1]}:]")
    return _POSIX[found[1]]


@lru_cache(256)
def pattern(text: str) -> Pattern:
    """Return a compiled pattern. A compilation takes a step (`charge_steps`) for each state.

    Raises:
        PatternError: it cannot be used.
    """
    compiled = Pattern(text)
    charge_steps(compiled.states)
    return compiled
