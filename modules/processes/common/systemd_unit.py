"""The text of a systemd unit, from program, user and options. Both programs use it; it imports little."""

import argparse
import os
import pwd
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

WATCHDOG_SECONDS: Final = 120
"""Seconds without a sign of life after which systemd kills and restarts the process."""

START_SECONDS: Final = 600
"""Seconds after which systemd kills a process that does not become ready: it may wait 300 for an updater, or give a
large database another schema. systemd's own 90 are few for a slow machine, too.
"""

STOP_SECONDS: Final = 60
"""Seconds after which systemd kills a process that does not stop; the modules have 20."""

USELESS: Final = "2 3"
"""Exit statuses after which a restart without a change is useless: USAGE and CONFIGURATION."""

_PLAIN: Final = re.compile(r"[\w@/.,:=+-]+", re.ASCII)
_OPEN_FILES: Final = 1048576


class Unit(NamedTuple):
    """The fields where units differ."""

    name: str
    """The program, and the unit without `.service`."""
    description: str
    command: Sequence[str]
    """Words of ExecStart; the first is an absolute path."""
    after: str
    """Units of the system that start first."""
    user: bool
    """Whether it is for a user's service manager."""
    account: str = ""
    """The `User=` of a unit of the system; empty for root."""
    service: Sequence[str] = ()
    """Further lines of the section Service."""


def text_of(unit: Unit) -> str:
    """Return the unit's text."""
    head = ["[Unit]", f"Description={_value(unit.description)}"]
    if not unit.user:
        head += ["Wants=network-online.target", f"After=network-online.target {unit.after}".rstrip()]
    service = [
        "[Service]",
        "# the process says when it is ready, and feeds the watchdog while its modules and its sync loop are alive",
        "Type=notify",
        "NotifyAccess=main",
        f"WatchdogSec={WATCHDOG_SECONDS}",
        *([f"User={unit.account}"] if unit.account else []),
        f"ExecStart={' '.join(_word(each) for each in unit.command)}",
        "Restart=on-failure",
        "RestartSec=5",
        "# a wrong command line or configuration: a restart without a change is useless",
        f"RestartPreventExitStatus={USELESS}",
        f"TimeoutStartSec={START_SECONDS}",
        f"TimeoutStopSec={STOP_SECONDS}",
        *unit.service,
        *([] if unit.user else [f"LimitNOFILE={_OPEN_FILES}", "LimitNPROC=infinity"]),
    ]
    target = "default.target" if unit.user else "multi-user.target"
    return "\n".join([*_install(unit), "", *head, "", *service, "", "[Install]", f"WantedBy={target}", ""])


def _install(unit: Unit) -> list[str]:
    if unit.user:
        return [
            f"# {unit.name} unit --user > ~/.config/systemd/user/{unit.name}.service",
            f"# systemctl --user daemon-reload; systemctl --user enable --now {unit.name}",
            "# so that it runs without a login: loginctl enable-linger",
        ]
    return [
        f"# {unit.name} unit > /etc/systemd/system/{unit.name}.service",
        f"# systemctl daemon-reload; systemctl enable --now {unit.name}",
    ]


def _word(text: str) -> str:
    """Return a word of a command line as systemd reads it: quoted where needed, without specifiers and variables."""
    text = text.replace("%", "%%").replace("$", "$$")
    if _PLAIN.fullmatch(text):
        return text
    escaped = "".join(_escaped(each) for each in text)
    return f'"{escaped}"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else "".join(f"\\x{byte:02x}" for byte in character.encode())


def _value(text: str) -> str:
    return text.replace("%", "%%").replace("\n", " ")


def add_user_option(parser: argparse.ArgumentParser) -> None:
    """Add `--user`."""
    parser.add_argument(
        "--user", action="store_true", help="print a unit for `systemctl --user` (default: for the system)"
    )


def program(name: str) -> list[str]:
    """Return the words that run a program of this installation: its script, or the interpreter with its module."""
    called = Path(sys.argv[0])
    beside = Path(sys.executable).with_name(name)
    found = shutil.which(called) if called.name == name else (str(beside) if os.access(beside, os.X_OK) else None)
    if found:
        return [str(Path(found).absolute())]
    return [str(Path(sys.executable).absolute()), "-m", f"modules.processes.{name}"]


def account_of(*, user: bool) -> str:
    """Return the `User=` of a unit; empty for root, and for a user's service manager."""
    return "" if user or os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
