"""Pieces of text with a tone, which the screen turns into colours. Texts are made harmless here."""

from enum import StrEnum
from typing import NamedTuple

from beehive.printable import printable


class Tone(StrEnum):
    """The meaning of a text for who looks."""

    PLAIN = "plain"
    STRONG = "strong"
    FAINT = "faint"
    GOOD = "good"
    BUSY = "busy"
    """Something is under way, or waits."""
    BAD = "bad"


class Span(NamedTuple):
    """A piece of a line."""

    text: str
    tone: Tone = Tone.PLAIN


Line = tuple[Span, ...]


def span(text: object, tone: Tone = Tone.PLAIN) -> Span:
    """Return a span of a text from outside, on one line and without characters that control a terminal."""
    return Span(printable(str(text).replace("\t", " ")), tone)


def text_of(line: Line) -> str:
    """Return the text of a line."""
    return "".join(each.text for each in line)


def joined(parts: list[Line], gap: str = "   ") -> Line:
    """Join the parts of a line that are not empty."""
    found: list[Span] = []
    for part in parts:
        if part:
            found += [Span(gap), *part] if found else part
    return tuple(found)


def clipped_line(line: Line, width: int) -> Line:
    """Cut a line to a number of characters; the last one is `…` when something is missing."""
    if len(text_of(line)) <= width:
        return line
    found, left = [], max(0, width - 1)
    for each in line:
        found.append(Span(each.text[:left], each.tone))
        left -= len(found[-1].text)
        if not left:
            break
    return (*found, Span("…", Tone.FAINT))
