"""The common parts of `cloudcore page` and `edgecore page`: their options, and the addresses that they print."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any, Final

from modules.processes.common.exit_codes import ExitCode

if TYPE_CHECKING:
    import argparse

    from modules.page.server import PageServer

ALLOW_HELP: Final = "what the page may do beside reading: `exec` opens shells in containers (default: nothing)"


def add_page(commands: argparse._SubParsersAction[Any], text: str, command: str) -> argparse.ArgumentParser:
    """Add the command `page` with `--port` and `--allow`, and return its parser.

    Args:
        commands: of the program.
        text: its help.
        command: the function that runs it, as `module:function`.
    """
    parser: argparse.ArgumentParser = commands.add_parser("page", help=text, description=text)
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1 (default: a free one)")
    parser.add_argument("--allow", action="append", choices=("exec",), default=[], help=ALLOW_HELP)
    parser.set_defaults(command=command)
    return parser


def serve_page(page: PageServer) -> int:
    """Print an address that can be opened once, another for each line of the terminal, and serve until a signal."""
    from modules.processes.common.shutdown import Shutdown  # noqa: PLC0415 - the command line is quick

    try:
        shutdown = Shutdown(at_once=ExitCode.INTERRUPTED)
        _print_address(page)
        if sys.stdin is not None and sys.stdin.isatty():
            threading.Thread(target=_print_more, args=(page,), name="page-addresses", daemon=True).start()
        shutdown.wait()
    finally:
        page.stop()
    return ExitCode.OK


def _print_address(page: PageServer) -> None:
    another = "Enter prints another, " if sys.stdin is not None and sys.stdin.isatty() else ""
    sys.stdout.write(
        f"{page.address()}\nOpen this address in a browser: once, within a minute. {another}Ctrl-C ends.\n"
    )
    sys.stdout.flush()


def _print_more(page: PageServer) -> None:
    """Print another address for each line of the terminal."""
    for _ in sys.stdin:
        _print_address(page)
