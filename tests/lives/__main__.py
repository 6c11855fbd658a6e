"""`make lives`: random lives of real nodes are recorded, and each recording is replayed: the whole node, and module by
module. Each replay must do what was recorded. A life of which nothing was recorded, or most of whose actions failed, is
none, and fails, too.

python -m tests.lives [--lives N] [--seed N] [--actions N] [--runtime process|oci] [--out DIR]
"""

import argparse
import shutil
import subprocess
import sys
import traceback
from contextlib import nullcontext
from os import getloadavg
from pathlib import Path
from random import Random
from typing import Final

from modules.processes.common.exit_codes import ExitCode
from tests.end_to_end.runtimes import EmbeddedUnderTest, OciUnderTest
from tests.lives.life import Life
from tests.modules.edge.eventbus.broker import MOSQUITTO
from tests.modules.runtimes.oci.node import reason_missing
from tests.support.saying import say

_LONGEST: Final = 1800.0
"""Seconds of all replays of a life."""


def main() -> int:
    """Live, replay, print, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.lives", description="random lives of real nodes, replayed")
    parser.add_argument("--lives", type=int, default=20, help="how many (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the first life (default %(default)s)")
    parser.add_argument("--actions", type=int, default=50, help="in each life (default %(default)s)")
    parser.add_argument("--runtime", choices=("process", "oci"), help="by default one after the other")
    parser.add_argument("--out", type=Path, default=Path("lives"), help="keeps the lives that fail (default lives)")
    chosen = parser.parse_args()
    if MOSQUITTO is None:
        sys.stderr.write("mosquitto is not installed (.ci/install-runtime)\n")
        return ExitCode.USAGE
    runtimes = [chosen.runtime] if chosen.runtime else ["process", "oci"]
    if "oci" in runtimes and (missing := reason_missing()):
        sys.stderr.write(f"without the OCI runtime: {missing}\n")
        runtimes.remove("oci")
    failed = 0
    for number in range(chosen.lives if runtimes else 0):
        seed, runtime = chosen.seed + number, runtimes[number % len(runtimes)]
        kept = chosen.out / f"{runtime}-{seed}"
        shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir(parents=True)
        why, load = _lived(seed, runtime, chosen.actions, kept), getloadavg()[0]
        has_failed, said = (True, why) if why else _replayed(kept)
        say(f"life {seed} on {runtime}, load {load:.0f}: {said if has_failed else f'no difference in {said}'}")
        failed += has_failed
        if not has_failed:
            shutil.rmtree(kept)
    say(f"{failed} of {chosen.lives if runtimes else 0} lives failed{f'; see {chosen.out}' if failed else ''}")
    return ExitCode.DIFFERENT if failed or not (chosen.lives and runtimes) else ExitCode.OK


def _lived(seed: int, runtime: str, actions: int, kept: Path) -> str:
    """Live one life; return why it failed, or nothing."""
    draw = Random(f"{seed} life")  # noqa: S311 - reproducible on purpose
    try:
        with OciUnderTest() if runtime == "oci" else nullcontext(EmbeddedUnderTest()) as under_test:
            Life(under_test, draw, is_late=draw.random() < 0.5).live(actions, kept)
    except (AssertionError, OSError):
        return traceback.format_exc()
    return ""


def _replayed(kept: Path) -> tuple[bool, str]:
    """Replay what was recorded, and what the flight recorder has kept; return whether that failed, and what of it."""
    command = [sys.executable, "-m", "tests.lives.replays", str(kept)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_LONGEST)
    except subprocess.TimeoutExpired:
        return True, f"the replays have not ended after {_LONGEST:g} s"
    if done.returncode != ExitCode.OK:
        return True, f"status {done.returncode}\n{done.stdout}{done.stderr}"
    return False, done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
