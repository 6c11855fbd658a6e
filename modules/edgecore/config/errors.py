"""What can be wrong with a configuration.

    ConfigError                  the file cannot be used; `problems` holds every reason, not only the first
    ├── ConfigUnreadableError    there is no such file, or may not be read, is no text, is far too large
    └── ConfigSyntaxError        it is not YAML; the one problem has line and column

One exception for all problems of a file, because a person who repairs a file wants the whole list at once.
"""

from __future__ import annotations

import msgspec


class Remark(msgspec.Struct, frozen=True, kw_only=True):
    """Something to say about one place of the file."""

    path: str
    """Dotted path of the key as it stands in the file; empty for the file as a whole."""

    text: str
    """What was found, and what is allowed or what became of it. Never holds the value of a secret."""

    hint: str = ""
    """What to do, when that does not follow from the text."""

    line: int | None = None
    """Line in the file, counted from 1; None when this has no place in it."""

    column: int | None = None
    """Column in that line, counted from 1; only given for errors of the YAML itself."""

    check: str = ""
    """Name of the check that found it, when it has one: what settings do together."""

    def render(self, source: str) -> str:
        """One line in the form compilers use, `file:line:column: path: text (hint)`."""
        place = ":".join(str(part) for part in (source, self.line, self.column) if part is not None)
        hint = f" ({self.hint})" if self.hint else ""
        name = f" [{self.check}]" if self.check else ""
        return ": ".join(part for part in (place, self.path, self.text + hint + name) if part)


class Problem(Remark, frozen=True, kw_only=True):
    """A remark that makes the file unusable."""


class ConfigError(Exception):
    """A configuration that cannot be used. Its text is one line for each problem."""

    def __init__(self, source: str, problems: tuple[Problem, ...], warnings: tuple[Remark, ...] = ()) -> None:
        """`source` names the file in messages; `problems` is never empty; `warnings` are not part of the
        text."""
        super().__init__("\n".join(problem.render(source) for problem in problems))
        self.source = source
        self.problems = problems
        self.warnings = warnings


class ConfigUnreadableError(ConfigError):
    """The file could not be read at all."""


class ConfigSyntaxError(ConfigError):
    """The file is not YAML."""
