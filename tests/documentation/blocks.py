"""Reads the fenced blocks of a page, and the commands of this project in them.

A block ```sh is run by `test_commands`, in a page's order, unless a comment before it says why not:

    <!-- parsed only: needs root and a containerd -->
    ```sh
    sudo edgecore run --config edgecore.yaml
    ```

In every block, of whatever language, a line that begins with `edgecore` or `cloudcore` must be one that the program
takes, unless the block shows an error:

    <!-- not parsed: shows an error -->
"""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

REPOSITORY: Final = Path(__file__).parents[2]
PAGES: Final = [
    *(REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((REPOSITORY / "docs").rglob("*.md")),
]
PROGRAMS: Final = ("edgecore", "cloudcore")

_FENCE: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_REASON: Final = re.compile(r"<!-- (parsed only|not parsed): ([^>]+?) -->\n*\Z")
_NOT_PARSED: Final = "not parsed"
_LINE: Final = re.compile(r"^(?:\$ )?(?:sudo )?(?:\.venv/bin/)?(?:edgecore|cloudcore) [a-z-].*$", re.MULTILINE)
_INNER: Final = re.compile(r"\$\(([^()]*)\)")
_PUNCTUATION: Final = frozenset("();<>|&")


class Block(NamedTuple):
    """A fenced block.

    Attributes:
        line: its first line in the page, from 1.
        language: after the fence; may be empty.
        text: its contents.
        reason: why it is only parsed; empty if it is run.
        shows_error: whether it is not even parsed.
    """

    line: int
    language: str
    text: str
    reason: str
    shows_error: bool = False

    @property
    def runs(self) -> bool:
        """Whether it is run."""
        return self.language == "sh" and not self.reason


def blocks(page: str) -> Iterator[Block]:
    """Yield the fenced blocks of a page, in order."""
    for found in _FENCE.finditer(page):
        before = page[: found.start()]
        reason = _REASON.search(before)
        shows_error = reason is not None and reason[1] == _NOT_PARSED
        yield Block(before.count("\n") + 2, found[1], found[2], reason[2] if reason else "", shows_error)


def commands(block: Block) -> Iterator[tuple[str, list[str]]]:
    """Yield program and arguments of each command of this project in a block; none if it shows an error."""
    if block.shows_error:
        return
    joined = block.text.replace("\\\n", " ")
    lines = joined.splitlines() if block.language == "sh" else _LINE.findall(joined)
    for line in lines:
        yield from _in_line(line.removeprefix("$ "))


def _in_line(line: str) -> Iterator[tuple[str, list[str]]]:
    for inner in _INNER.findall(line):
        yield from _in_line(inner)
    for words in _simple_commands(line):
        while words and (words[0] in ("sudo", "exec", "time") or re.fullmatch(r"\w+=.*", words[0])):
            words = words[1:]  # noqa: PLW2901
        if words and words[0].removeprefix(".venv/bin/") in PROGRAMS:
            yield words[0].removeprefix(".venv/bin/"), words[1:]


def _simple_commands(line: str) -> Iterator[list[str]]:
    """Yield the words of each command in a line of shell, without redirections."""
    reader = shlex.shlex(line, posix=True, punctuation_chars=True)
    reader.whitespace_split = True
    try:
        words = list(reader)
    except ValueError:
        return  # a quotation over several lines: the text of a heredoc or a script
    command: list[str] = []
    into = False
    for word in words:
        if set(word) <= _PUNCTUATION:
            into = word.startswith((">", "<"))
            if not into:
                yield command
                command = []
        elif into:
            into = False
        else:
            command.append(word)
    yield command
