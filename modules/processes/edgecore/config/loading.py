"""Reads and checks a configuration file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from modules.processes.edgecore.config.dangers import dangers
from modules.processes.edgecore.config.errors import (
    ConfigError,
    ConfigSyntaxError,
    ConfigUnreadableError,
    Problem,
    Remark,
)
from modules.processes.edgecore.config.model import EdgeCoreConfig
from modules.processes.edgecore.config.reading import read
from modules.processes.edgecore.config.rules import broken_rules
from modules.processes.edgecore.config.without_effect import KNOWN
from modules.processes.edgecore.config.yaml_text import ConfigDocument, join, parse

if TYPE_CHECKING:
    from pathlib import Path

MAX_FILE_BYTES: Final = 1024 * 1024
"""Largest file that is read. KubeEdge's own has 6 KiB."""


class LoadResult(msgspec.Struct, frozen=True, kw_only=True):
    """A usable file."""

    config: EdgeCoreConfig
    """The settings; keys that the file leaves out have their defaults."""

    source: str
    """Name of the file, for messages."""

    warnings: tuple[Remark, ...] = ()
    """Unknown keys, keys in odd spelling, and dangerous combinations of settings."""

    without_effect: tuple[Remark, ...] = ()
    """Keys of KubeEdge's with a chosen value that this edgecore does not use."""


def load(path: Path) -> LoadResult:
    """Read a file. Raises ConfigError with all its problems if it cannot be used."""
    source = str(path)
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise _unreadable(source, f"larger than {MAX_FILE_BYTES // 1024} KiB", "this is no configuration")
        text = content.decode("utf-8-sig")
    except FileNotFoundError:
        raise _unreadable(source, "there is no such file", "`edgecore config minimal` prints one") from None
    except IsADirectoryError:
        raise _unreadable(source, "is a directory, and a file is wanted", "--root names a directory") from None
    except PermissionError:
        raise _unreadable(
            source, "this user may not read it", "run this as its owner; `ls -l` says who that is"
        ) from None
    except OSError as error:
        raise _unreadable(source, f"cannot be read: {error.strerror}", "") from None
    except UnicodeDecodeError as error:
        raise _unreadable(source, f"is not UTF-8 text, at byte {error.start}", "") from None
    return loads(text, source)


def loads(text: str, source: str = "configuration") -> LoadResult:
    """Read a text; `source` names it in messages. Raises ConfigError as `load` does."""
    document = parse(text)
    if isinstance(document, Problem):
        raise ConfigSyntaxError(source, (document,))
    config, findings = read(EdgeCoreConfig, KNOWN, document)
    problems = findings.problems or _broken(config, document)
    told, fatal = _dangers(config, document, findings.without_effect)
    problems = [*problems, *fatal]
    warnings = (*findings.warnings, *told)
    if problems:
        raise ConfigError(source, tuple(sorted(problems, key=lambda problem: problem.line or 0)), warnings)
    return LoadResult(
        config=config,
        source=source,
        warnings=warnings,
        without_effect=tuple(findings.without_effect),
    )


def verify(config: EdgeCoreConfig, source: str) -> None:
    """Raise ConfigError if a configuration that was not read from a file breaks a rule between settings."""
    problems = _broken(config, ConfigDocument(None, {}, ()))
    if problems:
        raise ConfigError(source, tuple(problems))


def _broken(config: EdgeCoreConfig, document: ConfigDocument) -> list[Problem]:
    return [
        Problem(path=join(path), text=what, hint=hint, line=document.line_of(path))
        for path, what, hint in broken_rules(config)
    ]


def _dangers(
    config: EdgeCoreConfig, document: ConfigDocument, without_effect: list[Remark]
) -> tuple[list[Remark], list[Problem]]:
    """Return the warnings of dangerous combinations, and those that make the file unusable."""
    told: list[Remark] = []
    fatal: list[Problem] = []
    for each in dangers(config, document.value, [remark.path for remark in without_effect]):
        path, line = join(each.path), document.line_of(each.path)
        if each.fatal:
            fatal.append(Problem(path=path, text=each.text, hint=each.hint, line=line, check=each.check))
        else:
            told.append(Remark(path=path, text=each.text, hint=each.hint, line=line, check=each.check))
    return told, fatal


def _unreadable(source: str, text: str, hint: str) -> ConfigUnreadableError:
    return ConfigUnreadableError(source, (Problem(path="", text=text, hint=hint),))
