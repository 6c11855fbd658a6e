"""The command `edgecore config set`: changes settings with the probation of an upgrade.

The file is replaced by the updater, and put back unless the node is as well as before. Beside the file is a directory
with the updater, its journal and, until the end, the former file and the following one; the next `edgecore run` goes on
from there after a power cut.
"""

import argparse
import sys
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from beehive.decoding import decode_json
from beehive.files.durable import make_directories, replace_file
from modules.apimachinery.printing.terminal import print_error, print_lines
from modules.processes.edgecore.config import ConfigError
from modules.processes.edgecore.config.editing import with_setting
from modules.processes.edgecore.config.errors import Problem
from modules.processes.edgecore.config.loading import LoadResult, loads
from modules.processes.edgecore.location import NodeLocation, changing, node_location
from modules.processes.edgecore.reporting import reporting_errors
from modules.processes.edgecore.socket_path import socket_path
from modules.processes.edgecore.upgrade.commands import follow, observed, prepared, running_node
from modules.processes.edgecore.upgrade.errors import UpgradeError
from modules.processes.edgecore.upgrade.exclusion import changes_of, held
from modules.processes.edgecore.upgrade.programs import write_programs
from modules.processes.edgecore.upgrade.updater.files import replace_durably
from modules.processes.edgecore.upgrade.updater.installation import Installation, installation_of
from modules.processes.edgecore.upgrade.updater.journal import NodeHandle, Phase, ProbationLimits, UpgradeJournal

_ARGUMENT: Final = "edgecore config set"
_STANDARD_INPUT: Final = "-"
_LONGEST: Final = 64 * 1024


class _Change(NamedTuple):
    """A change of the configuration file."""

    loaded: tuple[LoadResult, LoadResult]
    """The configuration before and after."""
    texts: tuple[str, str]
    """The file before and after."""


@reporting_errors
def set_settings(chosen: argparse.Namespace) -> None:
    """Change settings; while the node runs, with a probation."""
    location = node_location(chosen)
    config, settings = location.load().config, _settings(chosen)
    if location.file is None:
        hint = "`edgecore config minimal` prints one; without a file the node has the defaults of --root"
        raise UpgradeError("there is no configuration file", str(location.root), hint)
    changes = changes_of(location, config)
    with held(changes, only_check=True):
        change = _change_of(location, location.file, settings)
    if change is None:
        return
    if chosen.only_check:
        print_lines([f"{location.file}: could be changed so"])
        return
    installation = Installation(changing(location.file))
    make_directories(installation.root, 0o700)
    with prepared(installation, changes):
        if _text_of(location.file) != change.texts[0]:
            change = _change_of(location, location.file, settings)
        if change is None:
            return
        _lead_to_program(installation)
        handle = running_node(config, location)
        if handle is None:
            replace_durably(location.file, change.texts[1].encode(), like=location.file.stat())
            print_lines([f"{location.file}: written; no node runs that it could be tried with"])
            return
        _stage(chosen, installation, handle, location, change)
    follow(installation)


def _change_of(location: NodeLocation, file: Path, settings: list[tuple[str, str]]) -> _Change | None:
    """Return the change of a file, which nobody else changes meanwhile; None if nothing changes, and then say so.

    Raises:
        ConfigError: the file, or a setting, is refused.
        OSError: the file cannot be read.
    """
    before, former = location.load(), _text_of(file)
    text = _edited(former, settings, str(file))
    after = loads(text, str(file))
    for warning in (each for each in after.warnings if each not in before.warnings):
        print_error("edgecore", f"warning: {warning.render(after.source)}")
    if after.config == before.config:
        print_lines([f"{file}: nothing changes"])
        return None
    return _Change((before, after), (former, text))


def _text_of(file: Path) -> str:
    return file.read_bytes().decode("utf-8-sig")


def _settings(chosen: argparse.Namespace) -> list[tuple[str, str]]:
    """Return the keys and values that are asked for. Raises ConfigError or OSError."""
    given, words = chosen.from_file, chosen.settings
    if given is not None:
        text = sys.stdin.buffer.read(_LONGEST) if str(given) == _STANDARD_INPUT else given.read_bytes()[:_LONGEST]
        try:
            return [*decode_json(text, dict[str, str]).items(), *_pairs(words)]
        except (msgspec.DecodeError, UnicodeError) as error:
            hint = 'want {"KEY": "VALUE"}'
            raise ConfigError(str(given), (Problem(path="--from", text=str(error), hint=hint),)) from error
    return _pairs(words)


def _pairs(words: list[str]) -> list[tuple[str, str]]:
    if len(words) % 2:
        raise ConfigError(_ARGUMENT, (Problem(path=words[-1], text="has no value", hint="KEY VALUE [KEY VALUE …]"),))
    pairs = zip(words[::2], words[1::2], strict=True)
    return [(key, sys.stdin.read(_LONGEST).rstrip("\n") if value == _STANDARD_INPUT else value) for key, value in pairs]


def _edited(text: str, settings: list[tuple[str, str]], source: str) -> str:
    """Return the text with the settings. Raises ConfigError."""
    keeps_comments = True
    for key, value in settings:
        edited = with_setting(text, key, value)
        text, keeps_comments = edited.text, keeps_comments and edited.keeps_comments
    if not keeps_comments:
        print_error("edgecore", f"warning: {source} is written anew, without its comments")
    return text


def _lead_to_program(installation: Installation) -> None:
    """Let the link of a directory of changes lead to this program, or to the current version of its installation.

    Raises:
        UpgradeError: there is no such program.
        OSError: the link cannot be made.
    """
    own = installation_of(Path(sys.prefix))
    installation.lead_to(Path(sys.prefix) if own is None else own.link)
    if not installation.program().exists():
        raise UpgradeError("cannot find the program edgecore", str(installation.program()))


def _stage(
    chosen: argparse.Namespace,
    installation: Installation,
    handle: NodeHandle,
    location: NodeLocation,
    change: _Change,
) -> None:
    """Write what the updater needs.

    Raises:
        UpgradeError: the node could not be compared with what it was.
        OSError: a file cannot be written.
    """
    former, following = (socket_path(each.config) for each in change.loaded)
    if former != following:
        hint = f"it would answer at {following}: stop it, and set this without it"
        raise UpgradeError("this cannot be tried while the node runs", "modules.edged.rootDirectory", hint)
    before, problems = observed(installation, handle)
    write_programs(installation)
    for path, text in zip((installation.former, installation.following), change.texts, strict=True):
        replace_file(path, text.encode())
    given = change.loaded[0].config.upgrade
    limits = ProbationLimits.of(chosen.within or given.within, chosen.steady or given.steady)
    journal = UpgradeJournal(
        before.version, before.version, handle, before, problems, "", 0, 0, limits,
        configuration=str(location.file.absolute()) if location.file is not None else "",
    )  # fmt: skip
    installation.write(journal, Phase.STAGED)
