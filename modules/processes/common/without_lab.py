"""The refusal of a command of the lab, which is a distribution of its own, where that is not installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from modules.apimachinery.printing.terminal import print_error
from modules.processes.common.exit_codes import ExitCode

if TYPE_CHECKING:
    import argparse

_LAB: Final = "modules.lab"


def is_why(error: ModuleNotFoundError) -> bool:
    """Return whether the module that was not found is the lab's."""
    return (error.name or "").startswith(_LAB)


def refuse(program: str, _chosen: argparse.Namespace) -> int:
    """Say how to install the lab."""
    from modules.processes.common.version import VERSION  # noqa: PLC0415 - only here

    wanted = "this command needs the extra lab: pip install --find-links DIRECTORY "
    print_error(
        program, f"error: {wanted}'edgecore[lab]=={VERSION}', with the directory that has the wheels of the release"
    )
    return ExitCode.NOT_INSTALLED
