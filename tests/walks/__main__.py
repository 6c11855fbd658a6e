"""`make walks`: rows of installations are walked, and what their screens say is compared.

python -m tests.walks [--only LEVEL …] [--pairs N] [--count N] [--seed N] [--minutes N] [--life S] [--jobs N]
                      [--revision PATH] [--list]
"""

import argparse
import signal
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Final

from modules.processes.common.exit_codes import ExitCode
from tests.end_to_end.processes import REPOSITORY
from tests.support.saying import say
from tests.walks.account import ordinary_user
from tests.walks.covering import covering, for_pairs
from tests.walks.factors import FACTORS, Row, this_machine
from tests.walks.journey import LIFE, Result, walk
from tests.walks.names import name_server

_WIDEST: Final = 400


def main(arguments: Sequence[str] | None = None) -> int:
    """Walk, print, and return the exit status: 6 if screens contradict each other, or a row could not be walked."""
    chosen = _parser().parse_args(arguments)
    here = this_machine()
    try:
        rows = covering(here, chosen.only)
    except ValueError as error:
        sys.stderr.write(f"walks: {error}\n")
        return ExitCode.USAGE
    whole = len(rows)
    if chosen.pairs:
        rows = for_pairs(rows, chosen.pairs, chosen.seed)
    Random(chosen.seed).shuffle(rows)  # noqa: S311 - reproducible on purpose
    rows = rows[: chosen.count or len(rows)]
    say(f"{len(rows)} of {whole} rows, seed {chosen.seed}, programs of {chosen.revision}")
    if chosen.list:
        say("\n".join(" ".join(row) for row in rows))
        return ExitCode.OK
    results = _walked(rows, chosen)
    _table(results, rows, chosen)
    return ExitCode.DIFFERENT if any(each.findings for each in results) or not results else ExitCode.OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.walks", description="walks of users on every kind of installation"
    )
    levels = "; ".join(f"{name}: {', '.join(each)}" for name, each in FACTORS.items())
    parser.add_argument("--only", nargs="+", default=[], metavar="LEVEL", help=f"rows with these levels only: {levels}")
    parser.add_argument("--pairs", type=int, default=0, help="rows for so many drawn pairs of levels (default: all)")
    parser.add_argument("--count", type=int, default=0, help="so many rows, drawn (default: all)")
    parser.add_argument("--seed", type=int, default=1, help="of the order and of drawn pairs (default %(default)s)")
    parser.add_argument("--minutes", type=float, default=60.0, help="begin no row after them (default %(default)g)")
    parser.add_argument(
        "--life", type=float, default=LIFE, help="seconds that a row lives at least (default %(default)g)"
    )
    parser.add_argument("--jobs", type=int, default=2, help="rows at a time (default %(default)s)")
    parser.add_argument(
        "--revision",
        type=Path,
        default=REPOSITORY,
        help="checkout with a .venv whose programs are walked (default: this one)",
    )
    parser.add_argument("--list", action="store_true", help="print the rows, and walk none")
    return parser


def _walked(rows: Sequence[Row], chosen: argparse.Namespace) -> list[Result]:
    """Walk rows, some at a time, and print each as it ends."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    ends, lock, results = time.monotonic() + chosen.minutes * 60, threading.Lock(), list[Result]()
    stopped, is_root = threading.Event(), this_machine().is_root

    def walked(row: Row) -> None:
        if stopped.is_set() or time.monotonic() > ends:
            return
        result = walk(row, chosen.revision.resolve(), account, uplink, chosen.life)
        with lock:
            results.append(result)
            found = f"{len(result.findings)} found" if result.findings else "ok"
            say(f"{len(results):3} {result.seconds:4.0f} s  {' '.join(row)}: {found}")
            for each in result.findings:
                say(f"        {_line(each)}")

    with (
        ordinary_user(is_root=is_root) as account,
        name_server(is_root=is_root) as uplink,
        ThreadPoolExecutor(chosen.jobs) as pool,
    ):
        walking = [pool.submit(walked, row) for row in rows]
        try:
            for each in walking:
                each.result()
        except BaseException:
            stopped.set()
            raise
    return results


def _table(results: Sequence[Result], rows: Sequence[Row], chosen: argparse.Namespace) -> None:
    say(f"\n{'WALK':15}{'ROWS':>5}{'OK':>5}  FOUND")
    for name in FACTORS["walk"]:
        of_walk = [each for each in results if each.row.walk == name]
        if of_walk:
            found = sorted({_kind(finding) for each in of_walk for finding in each.findings})
            say(f"{name:15}{len(of_walk):5}{sum(not each.findings for each in of_walk):5}  {' | '.join(found)}")
    for each in results:
        if each.findings:
            say(f"again: make walks ARGS='--only {' '.join(each.row)} --life {chosen.life:g}'")
    failed = sum(bool(each.findings) for each in results)
    left = len(rows) - len(results)
    say(f"{failed} of {len(results)} rows have found something{f'; {left} were not walked in time' if left else ''}")


def _line(text: str) -> str:
    joined = " ⏎ ".join(text.splitlines())
    return joined if len(joined) <= _WIDEST else f"{joined[: _WIDEST // 2]} … {joined[-_WIDEST // 2 :]}"


def _kind(finding: str) -> str:
    """Return the beginning of a finding: what it is about."""
    return finding.partition(": ")[0][:70]


if __name__ == "__main__":
    sys.exit(main())
