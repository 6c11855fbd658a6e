"""Shell completion, by argcomplete: the command `completion`, and the answer when the user presses Tab.

The shell runs the program with `_ARGCOMPLETE` set. Only then is argcomplete loaded. Values that depend on a running
program are requested at its socket, within `SECONDS` in all; without an answer nothing is offered.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from modules.processes.common.exit_codes import ExitCode

SHELLS: Final = ("bash", "zsh", "fish")

SECONDS: Final = 0.3
"""Longest time for an answer of a running program."""

_ANSWER: Final = "\0"
"""Prefix of options of the commands that only name an alternative."""

Completer = Callable[..., Iterable[str]]
"""Called by argcomplete with `prefix`, `action`, `parser` and `parsed_args`; returns the values."""


def add(parser: argparse.ArgumentParser, commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command `completion`."""
    added = commands.add_parser("completion", help="print the script that lets a shell complete commands")
    added.add_argument("shell", choices=SHELLS)
    added.set_defaults(command=f"{__name__}:print_script", program=parser.prog)


def print_script(chosen: argparse.Namespace) -> int:
    """Print the script for a shell."""
    from argcomplete.shell_integration import shellcode  # noqa: PLC0415 - only here

    sys.stdout.write(shellcode([chosen.program], shell=chosen.shell).strip() + "\n")
    return ExitCode.OK


def is_requested() -> bool:
    """Return whether a shell asks for values."""
    return "_ARGCOMPLETE" in os.environ


def answer(parser: argparse.ArgumentParser, completers: dict[str, Completer]) -> None:
    """Answer the shell and end the process.

    Args:
        parser: the program's, with all options.
        completers: for arguments, by their destination, such as `pod`.
    """
    from argcomplete.finders import CompletionFinder  # noqa: PLC0415 - only here

    _attach(parser, completers)
    CompletionFinder()(parser, always_complete_options=False)


def _attach(parser: argparse.ArgumentParser, completers: dict[str, Completer]) -> None:
    """Give each argument of the parser and of its commands its completer."""
    _tolerate_unfinished_lines(parser)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, command in list(action.choices.items()):
                if command.prefix_chars == _ANSWER:
                    del action.choices[name]
                else:
                    _attach(command, completers)
        elif action.dest in completers and action.choices is None:
            action.completer = completers[action.dest]  # type: ignore[attr-defined]


def _tolerate_unfinished_lines(parser: argparse.ArgumentParser) -> None:
    """Let a parser of kubectl's verbs read a line that ends in an option without its value."""
    parser._action_conflicts, parser._seen_non_default_actions = {}, set()  # type: ignore[attr-defined]
    in_order = getattr(parser, "_in_order", None)
    if in_order is None:
        return

    def patient(words: Sequence[str]) -> list[str]:
        action = parser._option_string_actions.get(words[-1]) if words else None
        if action is None or action.nargs == 0:
            return list(in_order(words))
        return [*in_order(words[:-1]), words[-1]]

    parser._in_order = patient  # type: ignore[attr-defined]
