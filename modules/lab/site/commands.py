"""The reference of a command line as Markdown, from its argparse parser, so that it cannot be out of date."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PROGRAMS: Final = {
    "edgecore": "modules.processes.edgecore.cli",
    "cloudcore": "modules.processes.cloudcore.cli",
}
"""The module of each program's command line."""

_WIDTH: Final = 96
"""Columns of a usage line."""


def parser_of(program: str) -> argparse.ArgumentParser:
    """Return the parser of `edgecore` or `cloudcore`, with the options of all commands."""
    cli: Any = import_module(PROGRAMS[program])
    parser, _ = cli.command_line()
    if not isinstance(parser, argparse.ArgumentParser):
        raise TypeError(f"{PROGRAMS[program]} has no parser")
    return parser


def command_page(program: str) -> str:
    """Return the page of all commands of a program, in the order of its help."""
    parser = parser_of(program)
    parts = [f"# Commands of {program}\n", f"{_text(parser.description)}\n"]
    parts += ["This page is made from the program's own parser; `--help` prints the same at each command.\n"]
    parts += ["| command | what it does |\n|---|---|"]
    parts += [f"| [`{path}`](#{_anchor(path)}) | {_cell(about)} |" for path, about, _ in _commands(parser, "")]
    for path, about, command in _commands(parser, ""):
        parts += ["", *_section(path, about, command)]
    return "\n".join(parts) + "\n"


def _commands(parser: argparse.ArgumentParser, about: str) -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    """Yield path, summary and parser of every command that does something, parents before their parts."""
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not groups or about:
        yield parser.prog, about or _text(parser.description), parser
    for group in groups:
        helps = {str(choice.dest): _text(choice.help) for choice in group._choices_actions}
        for name, command in group.choices.items():
            if name in helps:
                yield from _commands(command, helps[name])


def _section(path: str, about: str, command: argparse.ArgumentParser) -> Iterator[str]:
    yield f"## {path}\n"
    described = _text(command.description)
    yield f"{described or _sentence(about)}\n"
    yield f"```text\n{_usage(command)}\n```\n"
    rows = list(_rows(command))
    if rows:
        yield "| argument | meaning |\n|---|---|"
        yield from rows


def _usage(command: argparse.ArgumentParser) -> str:
    """Return the usage at a fixed width: argparse's own depends on the terminal."""

    def formatter(prog: str) -> argparse.HelpFormatter:
        return argparse.HelpFormatter(prog, width=_WIDTH)

    made, command.formatter_class = command.formatter_class, formatter
    try:
        return command.format_usage().removeprefix("usage: ").rstrip()
    finally:
        command.formatter_class = made


def _rows(command: argparse.ArgumentParser) -> Iterator[str]:
    formatter = argparse.HelpFormatter(command.prog)
    for action in command._actions:
        if isinstance(action, (argparse._HelpAction, argparse._SubParsersAction)):
            continue
        if action.help == argparse.SUPPRESS:
            continue
        name = formatter._format_action_invocation(action)
        meaning = formatter._expand_help(action) if action.help else ""
        chosen = _choices(action.choices) if action.choices is not None and action.metavar is not None else ""
        yield f"| `{_cell(name)}` | {_cell(meaning)}{chosen} |"


def _choices(choices: Iterable[object]) -> str:
    return " (one of " + ", ".join(f"`{choice}`" for choice in choices) + ")"


def _anchor(path: str) -> str:
    return path.replace(" ", "-")


def _text(value: str | None) -> str:
    return " ".join((value or "").split())


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _cell(text: str) -> str:
    """Return a text for a cell of a table; characters that Markdown would take for HTML are escaped."""
    return _text(text).replace("|", "\\|").replace("<", "&lt;")
