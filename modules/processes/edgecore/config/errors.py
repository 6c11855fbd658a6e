"""The error of a configuration: one exception has all problems of a file, because the user wants the whole list."""

import msgspec


class Remark(msgspec.Struct, frozen=True, kw_only=True):
    """A remark about one place of the file."""

    path: str
    """Dotted path of the key as it stands in the file; empty for the file as a whole."""

    text: str
    """The fact, and the allowed values or the consequence. Never holds the value of a secret."""

    hint: str = ""
    """Remedy, if it does not follow from the text."""

    line: int | None = None
    """Line in the file, from 1; None if the remark has no place in it."""

    column: int | None = None
    """Column in that line, from 1; only for errors of the YAML itself."""

    check: str = ""
    """Name of the check that found a dangerous combination; else empty."""

    def render(self, source: str) -> str:
        """Return one line in the form of compilers, `file:line:column: path: text (hint)`."""
        place = ":".join(str(part) for part in (source, self.line, self.column) if part is not None)
        hint = f" ({self.hint})" if self.hint else ""
        name = f" [{self.check}]" if self.check else ""
        return ": ".join(part for part in (place, self.path, self.text + hint + name) if part)


class Problem(Remark, frozen=True, kw_only=True):
    """A remark that makes the file unusable."""


class ConfigError(Exception):
    """A configuration that cannot be used. Its text has one line for each problem."""

    def __init__(self, source: str, problems: tuple[Problem, ...], warnings: tuple[Remark, ...] = ()) -> None:
        """`source` names the file in messages; `problems` is never empty; `warnings` are not part of the text."""
        super().__init__("\n".join(problem.render(source) for problem in problems))
        self.source = source
        self.problems = problems
        self.warnings = warnings
