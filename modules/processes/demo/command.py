"""The command of `make run`."""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from beehive.clock import RealClock
from beehive.errors import BeehiveError
from modules.processes.common.durations import seconds_option
from modules.processes.common.exit_codes import ExitCode
from modules.processes.demo.cluster import DemoCluster, missing_busybox
from modules.processes.demo.demo import Demo
from modules.processes.demo.events import Events
from modules.processes.demo.examples import images_of, read_examples
from modules.processes.demo.screen import screen_for
from modules.processes.edgecore.runtime_choice import missing_by_trial, missing_for_isolation

_REPOSITORY = Path(__file__).parents[3]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo and return its exit status.

    0: all pods are as expected (with `--once`), or the demo was ended by Ctrl-C. 1: they are not as expected in time,
    or a process ended; the reasons are printed. 130: `--once` was interrupted.
    """
    chosen = _parser().parse_args(arguments)
    events = Events(RealClock())
    isolated = _is_isolated(chosen)
    try:
        examples = read_examples(chosen.examples)
        images = sorted(images_of(examples)) if isolated else ()
        with DemoCluster(events, sys.stderr, images) as cluster:
            return Demo(cluster, events, screen_for(sys.stdout), examples).run(once=chosen.once, seconds=chosen.timeout)
    except (BeehiveError, OSError) as error:
        sys.stderr.write(f"demo: {error}\n")
        return ExitCode.INTERNAL_ERROR


def _is_isolated(chosen: argparse.Namespace) -> bool:
    """Return whether pods are containers; if nobody has chosen, by what this machine has, with a line that says it."""
    if chosen.isolated is not None:
        return bool(chosen.isolated)
    missing = missing_busybox() or missing_for_isolation() or missing_by_trial(Path(tempfile.gettempdir()))
    kind = "processes of this machine" if missing else "isolated containers, whose image is this machine's busybox"
    sys.stdout.write(f"pods are {kind}{f'; for isolated ones: {missing}' if missing else ''}\n")
    return not missing


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make run ARGS=…", description="An edge node and its cloud, to look at.")
    parser.add_argument("--once", action="store_true", help="end as soon as all pods are where they should be")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument(
        "--oci",
        action="store_const",
        dest="isolated",
        const=True,
        help="in isolated containers (default: where crun and what else they take is installed, with busybox-static)",
    )
    kind.add_argument(
        "--processes",
        action="store_const",
        dest="isolated",
        const=False,
        help="as plain processes, isolated by nothing",
    )
    parser.add_argument(
        "--timeout", type=seconds_option, default=60.0, metavar="DURATION", help="how long they may take (default 60s)"
    )
    parser.add_argument(
        "--examples",
        type=Path,
        default=_REPOSITORY / "examples",
        metavar="DIR",
        help="the manifests to apply (default: examples/)",
    )
    return parser
