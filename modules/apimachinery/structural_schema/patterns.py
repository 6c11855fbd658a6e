"""Regular expressions of schemas, matched in linear time as Go's regexp does (Thompson's construction).

Python's `re` backtracks: one pattern of a CustomResourceDefinition could occupy the API server for ever. What a
character does to a set of states is kept for the next time (a lazy automaton), and the work of a match is reported.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple

from modules.apimachinery.computed import charge_steps
from modules.apimachinery.structural_schema.character_classes import (
    EVERY,
    POSIX,
    SHORTHANDS,
    WORD,
    CharacterClass,
    Ranges,
    joined,
    of_category,
    others,
    ranges,
)

STATES: Final = 2000
"""States of one pattern."""
RANGES: Final = 10_000
"""Ranges of characters of the classes of one pattern."""
_STATES_IN_STEP: Final = 32
"""States that are looked at in a step."""
_KNOWN_IN_STEP: Final = 64
"""Characters in a step of which it is known what they do."""
_MOST_KEPT: Final = 8000
"""States of what is kept of a pattern, in all sets together."""

_LINE: Final = CharacterClass(others(ranges("\n\n")))
_ALL: Final = CharacterClass(EVERY)
_WORD: Final = CharacterClass(WORD)
_COUNT: Final = re.compile(r"\{([0-9]{1,4})(,([0-9]{0,4}))?\}")
_MOST_COUNTED: Final = 1000
_FLAGS: Final = re.compile(r"\(\?([imsU]*)(?:-([imsU]+))?(?=[:)])")
"""Flags for the rest of a group, `(?i)`, or for a group of their own, `(?i:…)`; U, lazy, changes nothing here."""
_CONTROLS: Final = {"a": 7, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13}
_POSIX: Final = re.compile(r"\[:(\^?)(\w+):\]", re.ASCII)
_CATEGORY: Final = re.compile(r"\\([pP])(?:\{(\^?)(\w+)\}|([A-Z]))", re.ASCII)
_CODE: Final = re.compile(r"\\(?:x\{([0-9A-Fa-f]{1,6})\}|x([0-9A-Fa-f]{2})|(0[0-7]{0,2}|[1-7][0-7]{1,2}))")


class _Anchor(NamedTuple):
    """A place between two characters."""

    holds: Callable[[str, str], bool]
    """Whether it is between a character and the next; empty at an end of the text."""


_START: Final = _Anchor(lambda before, _: not before)
_END: Final = _Anchor(lambda _, after: not after)
_LINE_START: Final = _Anchor(lambda before, _: before in ("", "\n"))
_LINE_END: Final = _Anchor(lambda _, after: after in ("", "\n"))
_EDGE: Final = _Anchor(lambda before, after: _is_word(before) is not _is_word(after))
_NO_EDGE: Final = _Anchor(lambda before, after: _is_word(before) is _is_word(after))
_ANCHORS: Final = {"A": _START, "z": _END, "b": _EDGE, "B": _NO_EDGE}


def _is_word(char: str) -> bool:
    return bool(char) and _WORD.holds(char)


def _kind(char: str) -> str:
    """Return a character that anchors after it do not tell from this one."""
    return char if char == "\n" else "a" if _WORD.holds(char) else "."


class PatternError(ValueError):
    """A pattern cannot be used: it is no regular expression, too large, or has a part that is not linear."""


class _State(NamedTuple):
    test: CharacterClass | _Anchor | None
    """None for an empty step."""
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
        self._classes: dict[int, tuple[Ranges, int]] = {}
        """By its place, a class of characters and its end: a repeated one is read once."""
        self._ranges = 0
        """Of all classes."""
        self._moves: dict[tuple[frozenset[int], str, str], frozenset[int] | None] = {}
        self._kept = 0
        self._first, last = self._alternatives()
        if self._at < len(text):
            raise PatternError(f"unexpected {text[self._at]!r}")
        self._last = self._state(None)
        self._states[last].after.append(self._last)
        self._begin = frozenset((self._first,))

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
        present, before, work = self._begin, "", 0
        for at, char in enumerate(value):
            if at % _KNOWN_IN_STEP == 0:
                work += _STATES_IN_STEP
            move = present, before, char
            if move in self._moves:
                after = self._moves[move]
            else:
                after, looked_at = self._move(*move)
                work += looked_at
            if work >= _STATES_IN_STEP:
                charge(work // _STATES_IN_STEP)
                work %= _STATES_IN_STEP
            if after is None:
                return True
            present, before = after, _kind(char)
        closed = self._closure(present, before, "")
        charge((work + len(closed)) // _STATES_IN_STEP)
        return self._last in closed

    def _move(self, present: frozenset[int], before: str, char: str) -> tuple[frozenset[int] | None, int]:
        """Return the states after a character, or None if the pattern was found before it, and keep them; and how many
        states were looked at.
        """
        closed = self._closure(present, before, char)
        found = None
        if self._last not in closed:
            tested = (self._states[state] for state in closed)
            found = frozenset(
                after
                for test, states in tested
                if isinstance(test, CharacterClass) and test.holds(char)
                for after in states
            ) | {self._first}
        self._kept += len(present) + len(closed)
        if self._kept > _MOST_KEPT:
            self._moves, self._kept = {}, 0
        self._moves[present, before, char] = found
        return found, len(closed) + len(found or ())

    def _closure(self, states: frozenset[int], before: str, after: str) -> set[int]:
        """Return the states that are reached between two characters."""
        found, waiting = set(states), list(states)
        while waiting:
            test, following = self._states[waiting.pop()]
            if test is None or (isinstance(test, _Anchor) and test.holds(before, after)):
                waiting += [state for state in following if state not in found]
                found.update(following)
        return found

    def _state(self, test: CharacterClass | _Anchor | None, *after: int) -> int:
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
            most = least if counts[1] is None else counts[1]
            if not least <= most <= _MOST_COUNTED:
                raise PatternError("invalid repeat count")
        else:
            return 1, 1
        if self._peek() == "?":
            self._at += 1
        if self._peek() in ("*", "+", "?") or _COUNT.match(self._text, self._at):
            raise PatternError("invalid nested repetition operator")
        return counts

    def _atom(self) -> tuple[int, int]:
        char = self._peek()
        if char == "(":
            return self._group()
        if char == "[":
            if self._at not in self._classes:
                self._keep_class(self._class(self._at + 1))
            found, self._at = self._classes[self._at]
            return self._of_class(found)
        if char == "\\":
            return self._escape()
        self._at += 1
        if char == "^":
            return self._test(_LINE_START if "m" in self._flags else _START)
        if char == "$":
            return self._test(_LINE_END if "m" in self._flags else _END)
        if char in ("*", "+", "?"):
            raise PatternError("missing argument to repetition operator")
        if char == ".":
            return self._test(_ALL if "s" in self._flags else _LINE)
        return self._of_class(ranges(char * 2))

    def _class(self, at: int) -> tuple[Ranges, int]:
        """Return the class of characters whose bracket opens before a place, and its end."""
        text = self._text
        is_negated = text.startswith("^", at)
        at += is_negated
        began, found = at, list[tuple[int, int]]()
        while at == began or not text.startswith("]", at):
            if named := self._named_class(at):
                part, at = named
                found += part
                continue
            first, at = self._class_char(at)
            last = first
            if text.startswith("-", at) and text[at + 1 : at + 2] not in ("", "]"):
                last, at = self._class_char(at + 1)
            if last < first:
                raise PatternError("invalid character class range")
            found.append((first, last))
        made = joined(found)
        return (others(made) if is_negated else made), at + 1

    def _named_class(self, at: int) -> tuple[Ranges, int] | None:
        """Return a class that has a name, and its end; None if none is at a place."""
        text = self._text
        if posix := _POSIX.match(text, at):
            if posix[2] not in POSIX:
                raise PatternError(f"invalid character class range: {posix[0]}")
            return (others(POSIX[posix[2]]) if posix[1] else POSIX[posix[2]]), posix.end()
        if text.startswith("\\", at) and (found := SHORTHANDS.get(text[at + 1 : at + 2].lower())):
            return (others(found) if text[at + 1].isupper() else found), at + 2
        if category := _CATEGORY.match(text, at):
            found = of_category(category[3] or category[4])
            if found is None:
                raise PatternError(f"the characters {category[0]} are not supported")
            is_negated = (category[1] == "P") is not bool(category[2])
            return (others(found) if is_negated else found), category.end()
        return None

    def _class_char(self, at: int) -> tuple[int, int]:
        """Return a character of a class, and its end."""
        if at >= len(self._text):
            raise PatternError("missing closing ]")
        return self._escaped(at) if self._text[at] == "\\" else (ord(self._text[at]), at + 1)

    def _escaped(self, at: int) -> tuple[int, int]:
        """Return the character that an escape stands for, and its end."""
        char = self._text[at + 1 : at + 2]
        if found := _CODE.match(self._text, at):
            code = int(found[3], 8) if found[3] else int(found[1] or found[2], 16)
            if code <= EVERY[0][1]:
                return code, found.end()
        if char in _CONTROLS:
            return _CONTROLS[char], at + 2
        if not char or not char.isascii() or char.isalnum():
            raise PatternError(f"the escape \\{char} is not supported")
        return ord(char), at + 2

    def _set_flags(self, end: str) -> bool:
        """Read flags that end with a character, and return whether there were any."""
        found = _FLAGS.match(self._text, self._at)
        if found is None or found[0] == "(?" or self._text[found.end()] != end:
            return False
        self._flags = (self._flags | set(found[1])) - set(found[2] or "")
        self._at = found.end() + 1
        return True

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
        anchor = _ANCHORS.get(self._text[self._at + 1 : self._at + 2])
        if anchor is not None:
            self._at += 2
            return self._test(anchor)
        if self._at not in self._classes and (named := self._named_class(self._at)):
            self._keep_class(named)
        if self._at in self._classes:
            found, self._at = self._classes[self._at]
            return self._of_class(found)
        code, self._at = self._escaped(self._at)
        return self._of_class(((code, code),))

    def _keep_class(self, found: tuple[Ranges, int]) -> None:
        """Keep the class that begins here: each of Unicode has hundreds of ranges."""
        self._ranges += len(found[0])
        if self._ranges > RANGES:
            raise PatternError("the pattern is too large")
        self._classes[self._at] = found

    def _of_class(self, found: Ranges) -> tuple[int, int]:
        return self._test(CharacterClass(found, "i" in self._flags))

    def _test(self, test: CharacterClass | _Anchor) -> tuple[int, int]:
        last = self._state(None)
        return self._state(test, last), last


@lru_cache(256)
def pattern(text: str) -> Pattern:
    """Return a compiled pattern. A compilation takes a step (`charge_steps`) for each state.

    Raises:
        PatternError: it cannot be used.
    """
    compiled = Pattern(text)
    charge_steps(compiled.states)
    return compiled
