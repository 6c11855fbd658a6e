"""`edgecore config default|minimal|check`: the commands themselves, imported only when one of them is called."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from modules.edgecore.config.errors import ConfigError
from modules.edgecore.config.loading import LoadResult, load
from modules.edgecore.config.model import EdgeCoreConfig
from modules.edgecore.config.profiles import PROFILES
from modules.edgecore.config.writing import MINIMAL_KEYS, render
from modules.edgecore.exit_codes import ExitCode

if TYPE_CHECKING:
    import argparse


def default(chosen: argparse.Namespace) -> int:
    """Prints every key with its default, or with the value that a profile gives it."""
    config = EdgeCoreConfig.default()
    sys.stdout.write(render(PROFILES[chosen.profile].applied(config) if chosen.profile else config))
    return ExitCode.OK


def minimal(_chosen: argparse.Namespace) -> int:
    """Prints the few keys that one sets."""
    sys.stdout.write(render(EdgeCoreConfig.default(), MINIMAL_KEYS))
    return ExitCode.OK


def check(chosen: argparse.Namespace) -> int:
    """Prints all there is to say about a file; CONFIGURATION when it cannot be used."""
    try:
        loaded = load(chosen.file)
    except ConfigError as error:
        sys.stdout.write("\n".join(_complaint(error)) + "\n")
        return ExitCode.CONFIGURATION
    sys.stdout.write("\n".join(_verdict(loaded)) + "\n")
    return ExitCode.OK


def _complaint(error: ConfigError) -> list[str]:
    lines = [f"error: {problem.render(error.source)}" for problem in error.problems]
    return lines + [f"warning: {warning.render(error.source)}" for warning in error.warnings]


def _verdict(loaded: LoadResult) -> list[str]:
    lines = [f"warning: {warning.render(loaded.source)}" for warning in loaded.warnings]
    lines += [f"note: {remark.render(loaded.source)}" for remark in loaded.without_effect]
    warnings, unused = len(loaded.warnings), len(loaded.without_effect)
    return [*lines, f"{loaded.source}: usable (warnings: {warnings}, keys set without effect: {unused})"]
