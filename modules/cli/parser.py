"""The command line of a verb, read as kubectl reads it.

Options may stand among the names (`get pods -n x web`), flags may have a value (`--wait=false`), and no option may be
shortened.
"""

import argparse
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

from modules.cli.statuses import USAGE

if TYPE_CHECKING:
    _SubParsersAction = argparse._SubParsersAction["VerbParser"]
else:
    _SubParsersAction = argparse._SubParsersAction  # it takes no parameter when it runs

# argparse asks for a translation of each text of each parser, and looks for a catalogue on the disk each time: for the
# commands of edgecore 1,300 times, half of the time that their parsers take
vars(argparse)["_"] = str

_TRUE: Final = ("true", "1", "t")
_FALSE: Final = ("false", "0", "f")


def sentence(text: str) -> str:
    """Return a text as a sentence."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


class _Commands(_SubParsersAction):
    """The commands of a parser; the help of each describes it in its own help, too."""

    def add_parser(self, name: str, **kwargs: Any) -> Any:
        if kwargs.get("help"):
            kwargs["description"] = sentence(kwargs.get("description") or kwargs["help"])
        return super().add_parser(name, **kwargs)

    def make_only(self, words: Collection[str]) -> None:
        """Make the parsers of those commands only that are in a command line; of the others there is the help."""
        make: Callable[..., Any] = self._parser_class

        def make_wanted(**kwargs: Any) -> Any:
            return make(**kwargs) if kwargs["prog"].rpartition(" ")[2] in words else _Unused()

        vars(self)["_parser_class"] = make_wanted


class _Unused:
    """Stands for the parser of a command that is not wanted: takes all calls, and does nothing."""

    def __getattr__(self, _name: str) -> "_Unused":
        return self

    def __call__(self, *_arguments: object, **_options: object) -> "_Unused":
        return self


class VerbParser(argparse.ArgumentParser):
    """A parser whose verbs, made with `intermixed=True`, take options and names in any order.

    The parser of an entry point is of this class too, so that its subparsers are.
    """

    def __init__(self, *args: Any, intermixed: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.register("action", "parsers", _Commands)
        self._intermixed = intermixed
        self._absent: dict[str, str] = {}
        self.hint = ""
        """Advice for arguments that it does not know."""

    @property
    def names(self) -> Collection[str]:
        """The names of all options."""
        return self._option_string_actions.keys()

    def flag(self, *names: str, default: bool = False, dest: str = "", text: str | None = None) -> None:
        """Add an option that is on or off: `--watch`, `--wait=false`.

        Args:
            names: the option's names; at least one begins with `--`.
            default: its value where it is not given.
            dest: its attribute; by default the long name.
            text: help; None hides the option.
        """
        long = next(name for name in names if name.startswith("--"))
        dest = dest or long.strip("-").replace("-", "_")
        self.add_argument(*names, dest=dest, action="store_true", default=default, help=text or argparse.SUPPRESS)
        for word, value in (("true", True), ("false", False)):
            self.add_argument(
                f"{long}={word}",
                dest=dest,
                action="store_const",
                const=value,
                default=default,
                help=argparse.SUPPRESS,
            )

    def format_help(self) -> str:
        """Return the help: the commands in groups, if there are any, else an example."""
        from modules.cli.help_texts import EXAMPLES, GROUPS  # noqa: PLC0415 - only for help

        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        groups = GROUPS.get(self.prog, {})
        sections: list[tuple[str | None, list[argparse.Action]]] = [
            (group.title, [each for each in group._group_actions if not groups or not isinstance(each, _Commands)])
            for group in self._action_groups
        ]
        commands = {
            each.dest: each
            for action in self._actions
            if isinstance(action, _Commands)
            for each in action._choices_actions
        }
        sections += [(title, [commands[name] for name in names.split()]) for title, names in groups.items()]
        for title, actions in sections:
            formatter.start_section(title)
            formatter.add_arguments(actions)
            formatter.end_section()
        example = EXAMPLES.get(self.prog)
        return formatter.format_help() + (f"\nexample:\n  {example}\n" if example else "")

    def absent(self, name: str, why: str) -> None:
        """Make an option of kubectl's or keadm's, which does not exist here, an error with the reason."""
        self._absent[name] = why

    def error(self, message: str) -> NoReturn:
        """End with one line on standard error and the status of a wrong command line."""
        from beehive.printable import printable  # noqa: PLC0415 - the command line is read without it

        self.exit(USAGE, f"error: {printable(message)} (see `{self.prog} --help`)\n")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Name only the commands that resemble an unknown one, where argparse lists all."""
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            names = offered(action)
            near = unknown_command(value, names)
            self.error(near if near.endswith("?") else f"{near}; there are {', '.join(names)}")
        super()._check_value(action, value)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse words as argparse does; the words of a verb are put in order before; unknown ones are its own error."""
        words = sys.argv[1:] if args is None else list(args)
        if not self._intermixed:
            for name in [word.partition("=")[0] for word in words if word.startswith("--")]:
                self._refuse_absent(name)
        found, unknown = super().parse_known_args(self._in_order(words) if self._intermixed else words, namespace)
        if unknown and self._subparsers is None:
            self.error(f"unrecognized arguments: {' '.join(unknown)}{self.hint and f'; {self.hint}'}")
        return found, unknown

    def _in_order(self, words: Sequence[str]) -> list[str]:
        """Return the options with their values joined to them, then all else."""
        options: list[str] = []
        names: list[str] = []
        rest = iter(words)
        for word in rest:
            if word == "--":
                return [*options, "--", *names, *rest]
            if word == "-" or not word.startswith("-"):
                names.append(word)
            elif word.startswith("--"):
                options.append(self._long(word, rest))
            else:
                options.extend(self._short(word, rest))
        return [*options, *names]

    def _long(self, word: str, rest: Iterator[str]) -> str:
        name, equals, value = word.partition("=")
        action = self._known(name)
        if not self._has_value(action):
            return f"{name}={found}" if (found := _boolean(value)) else word
        if equals:
            return word
        if action.nargs == "?":
            return f"{name}={action.const}"
        return f"{name}={self._next(name, rest)}"

    def _short(self, word: str, rest: Iterator[str]) -> Iterator[str]:
        """Yield the options of one word: `-Aw`, `-oyaml`, `-n=x`."""
        letters = word[1:]
        while letters:
            name, letters = f"-{letters[0]}", letters[1:]
            action = self._known(name)
            if self._has_value(action):
                value = letters.removeprefix("=") or self._next(name, rest)
                yield f"{name}={value}"
                return
            yield name

    def _known(self, name: str) -> argparse.Action:
        action = self._option_string_actions.get(name)
        if action is None:
            self._refuse_absent(name)
            self.error(f"unknown flag: {name}" if name.startswith("--") else f"unknown shorthand flag: {name}")
        return action

    def _refuse_absent(self, name: str) -> None:
        if name in self._absent:
            self.error(f"there is no {name} here: {self._absent[name]}")

    def _has_value(self, action: argparse.Action) -> bool:
        return action.nargs in {None, "?"}

    def _next(self, name: str, rest: Iterator[str]) -> str:
        word = next(rest, None)
        if word is None:
            self.error(f"flag needs an argument: {name}")
        return word


def make_only(commands: "argparse._SubParsersAction[Any]", words: Collection[str] | None) -> None:
    """Let a VerbParser make the parsers of those commands only that are in a command line: they take longer than most
    commands themselves.

    Args:
        commands: of the VerbParser, of which none was added yet.
        words: the command line; None makes all, as completion needs it.
    """
    if words is not None and isinstance(commands, _Commands):
        commands.make_only(words)


def _boolean(value: str) -> str:
    word = value.lower()
    return "true" if word in _TRUE else "false" if word in _FALSE else ""


_OTHER_WORDS: Final = {
    "delete": ("remove", "delete"),
    "load": ("import",),
    "ls": ("list",),
    "ps": ("list",),
    "rm": ("remove", "delete"),
    "rmi": ("remove",),
    "save": ("export",),
    "validate": ("check",),
}
"""Words of docker, podman, crictl and ctr, and the likely command here."""


def offered(commands: "argparse._SubParsersAction[Any]") -> list[str]:
    """Return the names of the commands that have a help text: the others only say what to do instead."""
    return [each.dest for each in commands._choices_actions]


def unknown_command(word: str, names: Collection[str]) -> str:
    """Return the error for a command that does not exist, with the names that mean the same, or else are like it."""
    from difflib import get_close_matches  # noqa: PLC0415 - a right command line does without it

    near = [name for name in _OTHER_WORDS.get(word, ()) if name in names] or get_close_matches(word, names, n=3)
    return f'unknown command "{word}"' + (f"; did you mean {' or '.join(near)}?" if near else "")
