"""`make life`: a cloud and a node live under churn, rest every ten minutes and are looked at then.

python -m tests.life [--minutes N] [--pods N] [--runtime NAME] [--user NAME] [--seed N]

Ten pods a minute come and go, and a link is cut in each period; halfway the node is ended and the cloud is killed, and
both are started again. What each program needs at rest is printed; it fails if one needs more at its end than it may.
"""

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from random import Random
from typing import Final

from modules.processes.common.exit_codes import ExitCode
from tests.end_to_end.processes import REPOSITORY
from tests.life.churn import Churn
from tests.life.needs import Needs, Process, files_below, grown, rows_by_table
from tests.support.saying import say
from tests.walks.account import ordinary_user
from tests.walks.factors import FACTORS, Row, this_machine
from tests.walks.world import Program, World

_PERIOD: Final = 600.0
_REST: Final = 40.0
"""Seconds in which nothing happens before a look."""
_MEASURED: Final = 20.0
_NO_NAME_SERVER: Final = "192.0.2.53"
_LINE: Final = "{:>7} {:8} {:>6} {:>6} {:>7} {:>7} {:>5} {:>8} {:>7} {:>6} {:>7} {:>6} {:>7}"
_HEAD: Final = (
    "MINUTE", "PROGRAM", "AGE", "PODS", "RSS MB", "PSS MB", "FDS", "THREADS", "ROWS", "FILES", "KB", "IDLE %", "MS/POD",
)  # fmt: skip


class Life:
    """The looks at an installation: a list for each process that it has had."""

    def __init__(self, world: World, churn: Churn) -> None:
        self.looks: dict[int, list[Needs]] = {}
        self._world, self._churn = world, churn
        self._began = time.monotonic()
        self._starts: dict[int, float] = {}
        self._used: dict[int, tuple[float, int]] = {}

    def look(self) -> None:
        """Look at each program, print what it needs, and keep it."""
        now = time.monotonic()
        programs = [each for each in (self._world.cloud, self._world.nodes[0].program) if each is not None]
        spent = {each.process.pid: each.processor_seconds() for each in programs}
        time.sleep(_REST)
        shares = self._world.busy(_MEASURED)
        for each in programs:
            needs = self._needs(each, now, spent[each.process.pid], shares[each.name])
            self.looks.setdefault(each.process.pid, []).append(needs)
            say(_line((now - self._began) / 60, needs))
            self._used[each.process.pid] = each.processor_seconds(), self._churn.made

    def _needs(self, program: Program, now: float, spent: float, share: float) -> Needs:
        pid = program.process.pid
        directory = self._world.directory / "cloud" if program is self._world.cloud else self._world.nodes[0].root
        used, pods = self._used.get(pid, (0.0, self._churn.made))
        seen, (resident, proportional), (files, kilobytes) = Process(pid), Process(pid).memory(), files_below(directory)
        made = self._churn.made - pods
        return Needs(
            program.name, (now - self._starts.setdefault(pid, now)) / 60, self._churn.made, resident, proportional,
            seen.descriptors(), seen.threads(), sum(rows_by_table(directory).values()), files, kilobytes, share,
            1000 * (spent - used) / made if made else 0.0,
        )  # fmt: skip

    def rows(self) -> dict[str, int]:
        """Return the rows of each table of both programs."""
        return rows_by_table(self._world.directory / "cloud") | rows_by_table(self._world.nodes[0].root)


def main(arguments: Sequence[str] | None = None) -> int:
    """Live, print, and return the exit status: 6 if something has grown."""
    parser = argparse.ArgumentParser(prog="python -m tests.life", description="a day of a cloud and a node")
    parser.add_argument("--minutes", type=float, default=120.0, help="of churn (default %(default)g)")
    parser.add_argument("--pods", type=float, default=10.0, help="that come and go in a minute (default %(default)g)")
    parser.add_argument("--runtime", choices=FACTORS["runtime"], default="oci", help="default %(default)s")
    parser.add_argument("--user", choices=FACTORS["user"], default="root", help="of the programs (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of what happens (default %(default)s)")
    chosen = parser.parse_args(arguments)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    is_root = this_machine().is_root
    row = Row(
        "workloads", chosen.runtime, chosen.user if is_root else "ordinary", "cut", "tls", "release", "cloud-restart",
        "embedded", "no-mesh", "debian", "one-node",
    )  # fmt: skip
    with (
        ordinary_user(is_root=is_root) as account,
        World(row, REPOSITORY, account, _NO_NAME_SERVER) as world,
    ):
        life = _lived(world, chosen)
        for table, count in sorted(life.rows().items(), key=lambda each: -each[1])[:12]:
            say(f"{count:8} rows in {table}")
    found = [each for looks in life.looks.values() for each in grown(looks)]
    say("\n".join(found) or "nothing has grown")
    return ExitCode.DIFFERENT if found else ExitCode.OK


def _lived(world: World, chosen: argparse.Namespace) -> Life:
    churn = Churn(world, chosen.pods, Random(chosen.seed))  # noqa: S311 - reproducible on purpose
    life = Life(world, churn)
    periods = max(1, round(chosen.minutes * 60 / _PERIOD))
    seconds = chosen.minutes * 60 / periods
    say(_LINE.format(*_HEAD))
    life.look()
    for period in range(periods):
        if period and period == periods // 2:
            world.restart_node()
            world.restart_cloud()
            world.wait_for_nodes()
            life.look()
        churn.go_on(seconds)
        life.look()
    return life


def _line(minute: float, needs: Needs) -> str:
    return _LINE.format(
        f"{minute:.0f}", needs.program, f"{needs.age:.0f}", needs.pods, f"{needs.resident:.1f}",
        f"{needs.proportional:.1f}", needs.descriptors, needs.threads, needs.rows, needs.files, needs.kilobytes,
        f"{100 * needs.share:.1f}", f"{needs.a_pod:.0f}",
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
