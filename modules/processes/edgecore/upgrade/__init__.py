"""The node's side of an upgrade: versions side by side, one switch, probation, and the way back.

`bundle` reads a signed release, `sources` finds one, `staging` makes a directory of it that is complete before it has
its name, `preconditions`, `trial` and `replay_gate` decide whether the node may try it, `updater` switches, watches and
rolls back, `commands` are the commands. `configuration` is `edgecore config set`, which has the same probation. The
updater is a program of its own that imports only the standard library: it must work when neither version does.

What can fail, and what then: a bundle that is unsigned, signed by others, damaged, too large or for another machine is
refused, and so is a version that cannot read the node's configuration or database; the node runs on as it was. A kill,
a power cut or a full disk leaves the link on one complete version; the journal says which phase was begun, and each
phase can be begun again. A new version that does not start, ends, hangs, does not connect, restarts a container,
damages the database or makes `doctor` fail is taken back, and so is one that is on probation at the fourth start
without an updater.

This module has only the arguments, because the command line is parsed before anything else is loaded.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from modules.processes.common.durations import whole_seconds_option
from modules.processes.edgecore.location import add_location


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Add `upgrade`, `rollback`, `versions`, `job` and `release`."""
    upgrade = commands.add_parser("upgrade", help="run a signed release, and go back unless the node is well with it")
    upgrade.add_argument(
        "bundle",
        metavar="BUNDLE|VERSION",
        help="the file; or a version, which upgrade.sources have. upgrade.trustedKeys has its signer",
    )
    upgrade.add_argument(
        "--only-check", action="store_true", help="fetch the bundle and check it, and change nothing else"
    )
    upgrade.add_argument("--allow-downgrade", action="store_true", help="also to a version before the current one")
    upgrade.add_argument("--allow-expired", action="store_true", help="also a bundle whose signature has expired")
    _finish(upgrade, "upgrade", replay_seconds=300)
    rollback = commands.add_parser("rollback", help="run the version before the current one again")
    rollback.add_argument("version", nargs="?", default="", metavar="VERSION", help="another one, see `versions`")
    _finish(rollback, "rollback", replay_seconds=0)
    versions = commands.add_parser("versions", help="list the versions beside each other, and the last upgrade")
    versions.add_argument("--json", action="store_true", help="print JSON for programs")
    _finish(versions, "versions")
    job = commands.add_parser("job", help="show or confirm the job of the cloud that is under way on this node")
    job.add_argument("--confirm", action="store_true", help="let the job that waits for it go on")
    job.add_argument("--json", action="store_true", help="print JSON for programs")
    add_location(job)
    job.set_defaults(command=f"{__name__}.job_command:job")
    release = commands.add_parser("release", help="let a pod begin that waits for it (edge.kubeedge.io/hold-upgrade)")
    release.add_argument("pod", nargs="?", default="", metavar="POD")
    release.add_argument(
        "--namespace", "-n", default="default", metavar="NS", help="namespace of the pod (default: %(default)s)"
    )
    release.add_argument("--all", "-a", action="store_true", help="all pods that wait")
    add_location(release)
    release.set_defaults(command=f"{__name__}.release_command:release")


def add_config_set(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `edgecore config set`."""
    parser.add_argument(
        "settings",
        nargs="*",
        metavar="KEY VALUE",
        help="such as modules.edgeHub.heartbeat 20; a value as in the file, - reads it from standard input",
    )
    parser.add_argument(
        "--from",
        dest="from_file",
        type=Path,
        metavar="FILE",
        help='has settings as {"KEY": "VALUE"}; - is standard input',
    )
    parser.add_argument("--only-check", action="store_true", help="check the settings, and change nothing")
    _add_limits(parser)
    add_location(parser)
    parser.set_defaults(command=f"{__name__}.configuration:set_settings")


def launcher() -> list[str]:
    """Return the words that start the current version of this program's installation; none if it is in none."""
    from modules.processes.edgecore.upgrade.updater.installation import installation_of  # noqa: PLC0415 - only here

    found = installation_of(Path(sys.prefix))
    return [] if found is None else [str(found.launcher)]


def _finish(parser: argparse.ArgumentParser, function: str, replay_seconds: int | None = None) -> None:
    parser.add_argument(
        "--installation",
        type=Path,
        metavar="DIR",
        help="directory with the versions (default: the one of this program)",
    )
    if replay_seconds is not None:
        _add_limits(parser)
        parser.add_argument(
            "--replay-seconds",
            type=whole_seconds_option,
            default=replay_seconds,
            metavar="DURATION",
            help=f"how long a replay with the version may take (default {replay_seconds}s; 0: do not)",
        )
        parser.add_argument(
            "--allow-difference",
            action="append",
            default=[],
            metavar="NAME",
            help="a kind of decision that may differ from the recordings",
        )
        add_location(parser)
    parser.set_defaults(command=f"{__name__}.commands:{function}")


def _add_limits(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--within",
        type=whole_seconds_option,
        metavar="DURATION",
        help="until the node has to be well (default: upgrade.within, 10m)",
    )
    parser.add_argument(
        "--steady",
        type=whole_seconds_option,
        metavar="DURATION",
        help="how long the node must be well without a break (default: upgrade.steady, 2m)",
    )
