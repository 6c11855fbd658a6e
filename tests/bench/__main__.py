"""`make bench`: benchmarks, each beside its floor from the same run.

python -m tests.bench [--only SECTION]… [--rounds N] [--quick] [--claims]
IDLE_PODS=110 IDLE_SECONDS=60 python -m tests.bench --only pleg-embedded
"""

import argparse
import compileall
import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from tests.bench import (
    bus,
    claims,
    cloud,
    crowd,
    devices,
    full,
    growth,
    growth_node,
    ingest,
    link,
    mesh,
    node,
    oci,
    offline,
    page,
    page_day,
    pleg,
    recorder,
    rootless,
    slow_node,
    store,
    view,
    workloads,
)
from tests.bench.rows import Goal, Row, Unit, heads, rates, written
from tests.end_to_end.processes import Process
from tests.support.browser import why_none
from tests.support.containerd import reason_missing
from tests.support.directories import SHORT
from tests.support.saying import say

ROUNDS: Final = 5


class Section(NamedTuple):
    """Rows that are measured together.

    Attributes:
        measure: takes the number of rounds.
        missing: returns why this machine cannot measure them, or None.
    """

    name: str
    title: str
    measure: Callable[[int], list[Row]]
    missing: Callable[[], str | None] = lambda: None


_BUS_KUBEEDGE: Final = {
    "one way, one message": "5.0–5.4 M/s",
    "one way, a new message each": "2.0 M/s",
    "request and answer": "0.29–0.38 M/s, some lost",
}


def _bus(rounds: int) -> list[Row]:
    goal = (Goal(1.0, at_most=False, of_floor=True),)
    return [
        Row(f"{one.row}, {one.contender}", one.rate.per_second, Unit.PER_SECOND, one.floor.per_second,
            _BUS_KUBEEDGE.get(one.row, ""), goal if one.contender == "bus" else ())
        for one in bus.measure(rounds)
        if one.rate != one.floor
    ]  # fmt: skip


def _recorded(rounds: int) -> list[Row]:
    cost, notes = recorder.measure(max(4, 4 * rounds)), recorder.measure_notes(max(4, 4 * rounds))
    goals = (Goal(0.98, at_most=False, of_floor=True),)
    redacted = Row(
        "4 kB redacted, 8,192 secrets known", recorder.redaction(), Unit.MILLISECONDS, None, "", (Goal(1.0),)
    )
    noted = Row(
        "requests with notes of their answers (floor: recorded without)", notes.recorded, Unit.PER_SECOND, notes.without
    )
    on = Row("bus with the flight recorder on", cost.recorded, Unit.PER_SECOND, cost.without, "", goals)
    return [on, noted, redacted]


def _stored(rounds: int) -> list[Row]:
    """Measure on the disk, not below /tmp, which may be memory."""
    with TemporaryDirectory(prefix=".bench-", dir=Path(__file__).parents[2]) as directory:
        return rates(store.measure(Path(directory), rounds), "1,640–1,690/s")


def _ingested(rounds: int) -> list[Row]:
    """Measure on the disk, not below /tmp."""
    goals = (Goal(5_000, at_most=False), Goal(0.6, at_most=False, of_floor=True))
    with TemporaryDirectory(prefix=".bench-", dir=Path(__file__).parents[2]) as directory:
        return [
            Row(one.name, one.per_second, Unit.PER_SECOND, one.floor, "1,640–1,690/s",
                goals if "1 kB" in one.name and "at once" in one.name else ())
            for one in ingest.measure(Path(directory), rounds)
        ]  # fmt: skip


SECTIONS: Final = (
    Section("bus", "bus; floor: a bare pykka actor with its stock inbox", _bus),
    Section("recorder", "flight recorder, by processor time; floor: the bus with metrics and no recorder", _recorded),
    Section("store", "store; floor: SQLite itself, same pragmas and batches", _stored),
    Section("ingest", "socket to durable commit and acknowledgement; floor: SQLite itself", _ingested),
    Section("link", "link; floor: the websockets package's client", lambda n: rates(link.measure(n))),
    Section("crowd", "a thousand nodes on one cloudcore", lambda _rounds: crowd.measure()),
    Section("crowd-20", "a thousand nodes with 20 pods each", lambda _rounds: crowd.measure(pods=20)),
    Section("growth", "what one more costs cloudcore; floor: the same among few", lambda _rounds: growth.measure()),
    Section("growth-node", "what one more pod costs edged; floor: the same among few", lambda _: growth_node.measure()),
    Section("cloud", "cloudcore at a cluster; floor: the same write's answer", lambda _rounds: cloud.measure()),
    Section("devices", "devices and MQTT; floor: paho-mqtt alone", devices.measure, devices.missing),
    Section("embedded", "node on the process runtime; floor: the same CRI calls made bare", node.embedded),
    Section("oci", "node on the OCI runtime; floor: the same CRI calls made bare", node.oci, oci.missing),
    Section("runtime", "OCI runtime beside containerd", oci.measure, oci.missing),
    Section("rootless", "OCI runtime by its calls, as root or as an ordinary user", rootless.measure, rootless.missing),
    Section("containerd", "node on containerd; floor: the same CRI calls made bare", node.containerd, reason_missing),
    Section("offline", "50 stored pods without a cloud; floor: the same pods from the cloud", offline.measure),
    Section("relist", "relist by processor time, runtime in memory; floor: the two list calls", pleg.relists),
    Section("pleg-embedded", "what happens and what does not, process runtime", pleg.embedded),
    Section("pleg-containerd", "what happens and what does not, containerd", pleg.containerd, reason_missing),
    Section("slow-disk", "node whose flushes take 10 ms, OCI runtime", slow_node.disk, slow_node.missing),
    Section("slow-processor", "node with 20 % of a core, OCI runtime", slow_node.processor, slow_node.missing),
    Section("full-embedded", "110 pods on the process runtime; floor: the bare calls", full.embedded),
    Section("full-oci", "110 pods on the OCI runtime; floor: the bare calls", full.oci, oci.missing),
    Section("full-containerd", "110 pods on containerd; floor: the bare calls", full.containerd, reason_missing),
    Section("mesh", "Services on a node, with nftables", mesh.measure, mesh.missing),
    Section("workloads", "controllers of the embedded cloud, 200 nodes", lambda _rounds: workloads.measure(1)),
    Section("view", "a trace as a page in a browser", view.measure, view.missing),
    Section("page", "the page of a fleet", page.measure),
    Section(
        "page-day",
        "a page that is open for eight hours, 200 nodes",
        lambda _rounds: page_day.measure(),
        lambda: why_none() or None,
    ),
)

ON_REQUEST: Final = (
    "cloud", "crowd-20", "devices", "growth", "growth-node", "slow-disk", "slow-processor", "full-embedded",
    "full-oci", "full-containerd", "page-day",
)  # fmt: skip
"""Sections that take minutes and run only when `--only` names them."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and return the exit status."""
    names = [section.name for section in SECTIONS]
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Benchmarks beside their floors.")
    parser.add_argument("--only", action="append", choices=names, metavar="SECTION", help=f"of {', '.join(names)}")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="rounds of each median (default %(default)s)")
    parser.add_argument("--quick", action="store_true", help="one round, for a first look")
    parser.add_argument(
        "--claims", action="store_true", help="repeat the figures of the documentation, and say which do not hold"
    )
    chosen = parser.parse_args(arguments)
    usual = [name for name in names if name not in ON_REQUEST]
    rounds = 1 if chosen.quick else max(1, chosen.rounds)
    _compile()
    begin = time.monotonic()
    say(_machine())
    say(f"medians of {rounds} rounds\n\n{heads()}")
    claimed = list(dict.fromkeys(claim.section for claim in claims.CLAIMS))
    wanted = chosen.only or (claimed if chosen.claims else usual)
    run = _run_or_report if chosen.claims else _run
    measured = {section.name: run(section, rounds) for section in SECTIONS if section.name in wanted}
    status = _check_claims(measured) if chosen.claims else 0
    say(f"\n{time.monotonic() - begin:.0f} s; load average now {_load()}")
    return status


def _check_claims(measured: Mapping[str, Sequence[Row] | None]) -> int:
    """Print the table of the claims whose sections were measured; return 1 if one does not hold."""
    found = {name: rows for name, rows in measured.items() if rows is not None}
    table = claims.lines([claim for claim in claims.CLAIMS if claim.section in found], found)
    say("\n" + "\n".join(line for line, _ in table))
    missed = sum(not is_held for _, is_held in table)
    say(f"\n{missed} of {len(table) - 1} claims do not hold (worse by more than {claims.SLACK - 1:.0%})")
    return min(1, missed)


def _compile() -> None:
    """Compile this project's modules, as an installation does: where Python may not write bytecode, each start would.

    That is a second and more of processor time for each start of edgecore, which no node has.
    """
    for package in ("beehive", "edgecore_mapper", "edged", "edgehub", "metamanager", "modules", "protos"):
        compileall.compile_dir(Path(__file__).parents[2] / package, quiet=1)


def _run(section: Section, rounds: int) -> list[Row] | None:
    """Measure and print the rows of a section, and return them; None if this machine cannot measure them."""
    say(f"\n{section.title}")
    missing = section.missing()
    if missing is not None:
        say(f"skipped: {missing}")
        return None
    begin, rows = time.monotonic(), []
    for row in section.measure(rounds):
        say(written(row))
        rows.append(row)
    say(f"({time.monotonic() - begin:.0f} s)")
    return rows


def _run_or_report(section: Section, rounds: int) -> list[Row] | None:
    """Run a section of many: if it fails, its claims are not measured, and the others are."""
    try:
        return _run(section, rounds)
    except Exception:  # noqa: BLE001 - whatever one bench raises
        say(f"{section.name} failed:\n{traceback.format_exc()}")
        return []


def _machine() -> str:
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        "unknown processor",
    )
    python = ".".join(map(str, sys.version_info[:3]))
    return f"{os.cpu_count()} × {model}; Python {python}; load average before {_load()}{_disk(SHORT)}"


def _disk(directory: Path) -> str:
    """Return what is to be known of the disk of a directory: without its journal, ext4 passes the inodes of files that
    were deleted minutes ago by one at a time, which costs a pod up to 25 ms (docs/performance.md).
    """
    device = os.stat(directory).st_dev  # noqa: PTH116 - its numbers
    name = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve().name
    has_journal = any(Path("/proc/fs/jbd2").glob(f"{name}-*"))
    return (
        "" if has_journal or not Path(f"/proc/fs/ext4/{name}").exists() else "; ext4 WITHOUT A JOURNAL: pods cost more"
    )


def _load() -> str:
    return " ".join(Path("/proc/loadavg").read_text().split()[:3])


if __name__ == "__main__":
    Process.is_preloaded = False
    sys.exit(main())
