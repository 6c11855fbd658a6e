"""The part of conmon's command line that edgecore uses."""

from typing import NamedTuple

_FLAGS = {
    "-t": "terminal",
    "-i": "stdin",
    "--leave-stdin-open": "leave_stdin_open",
}
_VALUES = {
    "-c": "container",
    "-r": "runtime",
    "-b": "bundle",
    "-p": "pid_file",
    "-P": "own_pid_file",
    "--persist-dir": "persist",
    "-l": "log",
}
_IGNORED = ("--api-version", "-u", "-n", "--log-level")
_LOG_DRIVER = "k8s-file:"


class Arguments(NamedTuple):
    """The arguments of the process; see conmon(8)."""

    container: str = ""
    runtime: str = ""
    runtime_options: tuple[str, ...] = ()
    bundle: str = ""
    pid_file: str = ""
    own_pid_file: str = ""
    persist: str = ""
    log: str = ""
    terminal: bool = False
    stdin: bool = False
    leave_stdin_open: bool = False


def parse(arguments: list[str]) -> Arguments:
    """Return the arguments of a command line; options that have no effect here are left out."""
    found: dict[str, object] = {}
    options = []
    left = iter(arguments)
    for each in left:
        name, _, value = each.partition("=")
        if each in _FLAGS:
            found[_FLAGS[each]] = True
        elif each in _VALUES:
            found[_VALUES[each]] = next(left, "")
        elif each in _IGNORED:
            next(left, None)
        elif name == "--runtime-arg":
            options.append(value)
    found["log"] = str(found.get("log", "")).removeprefix(_LOG_DRIVER)
    return Arguments(**found, runtime_options=tuple(options))  # type: ignore[arg-type]
