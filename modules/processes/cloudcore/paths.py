"""The places of a cloudcore's files and of its control socket: one rule for all commands.

`--root DIR` holds everything: `cloudcore.sock`, `cloudcore.db` and `tls/`. Without it DIR is
`$XDG_STATE_HOME/cloudcore` if that variable is set, `/var/lib/cloudcore` for root and `~/.local/state/cloudcore` for
others. `--socket`, `--database` and `--tls-dir` name one of them elsewhere. `--socket` without `--root` takes the
others along: a cloudcore whose socket is `DIR/NAME.sock` keeps `DIR/NAME.db` and `DIR/tls`. The current directory
does not matter.
"""

import argparse
from pathlib import Path
from typing import Final, NamedTuple

from beehive.errors import BeehiveError
from modules.processes.common.state_directory import state_directory

SOCKET: Final = "cloudcore.sock"
DATABASE: Final = "cloudcore.db"
_TLS: Final = "tls"
_FORMER: Final = (DATABASE, SOCKET, "cloudcore-tls")
"""Names in the current directory that an earlier cloudcore used."""


class CloudPathsError(BeehiveError):
    """The user has no home directory and named no place."""


class CloudPaths(NamedTuple):
    """The files of one cloudcore."""

    root: Path
    """Directory of the files that are not named otherwise."""
    socket: Path
    """The control socket."""
    database: str
    """File or URL of the database."""
    tls: Path
    """Directory of the certificate authority."""


def add_socket_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that find a cloudcore: `--root` and `--socket`."""
    parser.add_argument(
        "--root",
        type=Path,
        metavar="DIR",
        help="the cloud's directory, with its control socket, database and certificates (default "
        "$XDG_STATE_HOME/cloudcore, else /var/lib/cloudcore for root, ~/.local/state/cloudcore for others)",
    )
    parser.add_argument("--socket", type=Path, metavar="PATH", help=f"control socket (default {SOCKET} below --root)")


def paths_of(chosen: argparse.Namespace) -> CloudPaths:
    """Return the paths that the options select; `--database` and `--tls-dir` count where a command has them.

    Raises:
        CloudPathsError: the user has no home directory and gave neither `--root` nor `--socket`.
    """
    root: Path | None = chosen.root and chosen.root.absolute()
    named: Path | None = chosen.socket and chosen.socket.absolute()
    if root is None:
        root = named.parent if named else _default_root()
        socket = named or root / SOCKET
        database = socket.with_suffix(".db")
    else:
        socket = named or root / SOCKET
        database = root / DATABASE
    return CloudPaths(
        root,
        socket,
        getattr(chosen, "database", None) or str(database),
        getattr(chosen, "tls_dir", None) or root / _TLS,
    )


def settle(chosen: argparse.Namespace) -> None:
    """Put the paths that the options select into the options of a command that has them.

    Raises:
        CloudPathsError: as `paths_of`.
    """
    if hasattr(chosen, "socket"):
        named = getattr(chosen, "database", None)
        chosen.root, chosen.socket, chosen.database, chosen.tls_dir = paths_of(chosen)
        if getattr(chosen, "state", "") == "cluster":
            chosen.database = named  # there is no database, and naming one is an error


def remark_on_former_files(chosen: argparse.Namespace, directory: Path) -> str:
    """Return a remark if no place was named and `directory` has the files of an earlier cloudcore, which kept them in
    the current directory; else an empty string.
    """
    found = [name for name in _FORMER if (directory / name).exists()]
    if chosen.root or chosen.socket or not found or paths_of(chosen).root == directory:
        return ""
    tls = " --tls-dir cloudcore-tls" if _FORMER[2] in found else ""
    return (
        f"{', '.join(f'./{name}' for name in found)}: of an earlier cloudcore and not used; the cloud is in "
        f"{paths_of(chosen).root} now (--socket cloudcore.sock{tls} goes on with the old one)"
    )


def _default_root() -> Path:
    try:
        return state_directory("cloudcore")
    except RuntimeError:
        hint = "this user has no home directory: give --root DIR"
        raise CloudPathsError("cannot find the cloud's directory", hint=hint) from None
