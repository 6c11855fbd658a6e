"""The places of a node's configuration and state: one rule for all commands of `edgecore`.

1. `--config FILE` names the configuration file.
2. `--root DIR` names the node's directory. Its configuration file is `DIR/edgecore.yaml`; while that does not exist,
   the node has defaults, with everything below DIR and the container runtime of its first start (`runtime_choice`).
3. Without both, root has KubeEdge's file, `/etc/kubeedge/config/edgecore.yaml`, if it exists. Otherwise the directory
   is `$XDG_STATE_HOME/edgecore` if that variable is set, `/var/lib/edgecore` for root and `~/.local/state/edgecore`
   for others, as if `--root` had named it.

`edgecore join` writes the file that `edgecore run` reads with the same options.
"""

import argparse
import os
import shlex
from pathlib import Path
from typing import Final

import msgspec

from modules.processes.common.state_directory import state_directory
from modules.processes.edgecore.config import ConfigError, LoadResult, Problem, load
from modules.processes.edgecore.config.own_directories import with_own_directories

KUBEEDGE_FILE: Final = Path("/etc/kubeedge/config/edgecore.yaml")
"""KubeEdge's path of the configuration file."""

FILE_NAME: Final = "edgecore.yaml"
"""Name of the configuration file in a node's directory."""

RULE: Final = (
    "default: for root /etc/kubeedge/config/edgecore.yaml if it exists, else as --root DIR with "
    "$XDG_STATE_HOME/edgecore (/var/lib/edgecore for root, ~/.local/state/edgecore for others)"
)
"""The rule without options, for `--help`."""


class NodeLocation(msgspec.Struct, frozen=True):
    """The place of a node's configuration."""

    file: Path | None
    """The configuration file; None if the node has the defaults."""
    root: Path | None
    """The node's directory; None if a configuration file was named, which has all paths."""

    def __str__(self) -> str:
        """Name the place for a message."""
        return f"configuration {self.file}" if self.file else f"directory {self.root}, without an edgecore.yaml"

    @property
    def options(self) -> tuple[str, ...]:
        """The options that lead any command to this place from any directory and as any user."""
        if self.root is not None:
            return ("--root", str(self.root.absolute()))
        return ("--config", str((self.file or KUBEEDGE_FILE).absolute()))

    def load(self) -> LoadResult:
        """Return the configuration and the remarks about its file.

        Raises:
            ConfigError: the file cannot be read or is wrong.
        """
        if self.file is not None:
            return with_own_directories(load(self.file))
        from modules.processes.edgecore.runtime_choice import configured_below  # noqa: PLC0415 - it loads the bus

        root = self.root or default_root()
        return LoadResult(config=configured_below(root), source=f"--root {root}", has_file=False)


def changing(file: Path) -> Path:
    """Return the directory beside a configuration where `edgecore config set` keeps what it needs.

    It is absolute: the updater, which begins there, runs in another directory.
    """
    return file.absolute().with_name(f".{file.name}.change")


def add_location(parser: argparse.ArgumentParser) -> argparse._MutuallyExclusiveGroup:
    """Add `--config` and `--root`, which exclude each other, and return their group."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--config", type=Path, metavar="FILE", help=f"the node's configuration file ({RULE})")
    where.add_argument(
        "--root",
        type=Path,
        metavar="DIR",
        help="the node's directory: DIR/edgecore.yaml, or without it the defaults below DIR",
    )
    return where


def run_command(program: str, chosen: argparse.Namespace) -> str:
    """Return the command that runs the node that the options select, as somebody would type it.

    Args:
        program: edgecore, or the path of one.
        chosen: has the options of `add_location`.
    """
    option = ("--config", chosen.config) if chosen.config else ("--root", chosen.root)
    return shlex.join([program, "run", *(map(str, option) if option[1] else ())])


def node_location(chosen: argparse.Namespace) -> NodeLocation:
    """Return the node that the options select.

    Raises:
        ConfigError: the user has no home directory and gave no option.
    """
    return located(chosen.config, chosen.root)


def located(config: Path | None, root: Path | None) -> NodeLocation:
    """Return the node that `--config` and `--root` select; of both, which `join` alone takes, the file counts.

    Raises:
        ConfigError: the user has no home directory and both arguments are None.
    """
    if config is not None:
        return NodeLocation(config, None)
    if root is None and os.geteuid() == 0 and KUBEEDGE_FILE.exists():
        return NodeLocation(KUBEEDGE_FILE, None)
    directory = root if root is not None else default_root()
    file = directory / FILE_NAME
    return NodeLocation(file if os.path.lexists(file) else None, directory)


def load_node(chosen: argparse.Namespace) -> LoadResult:
    """Return the configuration of the node that the options select.

    Raises:
        ConfigError: its file cannot be read or is wrong, or the user has no home directory.
    """
    return node_location(chosen).load()


def default_root() -> Path:
    """Return the directory of a node without an option for it.

    Raises:
        ConfigError: the user has no home directory.
    """
    try:
        return state_directory("edgecore")
    except RuntimeError:
        hint = "give --root DIR or --config FILE"
        raise ConfigError("--root", (Problem(path="", text="this user has no home directory", hint=hint),)) from None
