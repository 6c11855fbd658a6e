"""`make bench ARGS=--claims`: the figures that the documentation states, measured again.

A claim names the place of a figure and the row of the bench that repeats it; the figure itself is read from the page.
Figures that were taken by hand, such as those under a kube-apiserver, are not repeated.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.bench.rows import Row, Unit

SLACK: Final = 1.25
"""How much worse a figure may be before its claim does not hold: the machine does other work, too."""
ROOT: Final = Path(__file__).parents[2]
_PAGE: Final = "docs/performance.md"
_NOTE: Final = re.compile(r" \([^()]*\)")
_NUMBER: Final = re.compile(r"\d[\d,]*(?:\.\d+)?")


class Claim(NamedTuple):
    """A figure of the documentation."""

    row: str
    """The first cell of its line in a table without what is in parentheses, such as the commit and the load, or in
    prose (`column` 0) the words before the figure.
    """
    column: int
    """Of the cell with the figure; 1 is the first after the line's name."""
    section: str
    """Of the bench."""
    what: str
    """The beginning of the row's name there."""
    number: int = 0
    """Which number of the cell it is."""
    of_floor: bool = False
    """Whether the figure is the ratio to the floor."""
    after: str = ""
    """A line of the table before this one, where several have its name."""
    page: str = _PAGE

    @property
    def name(self) -> str:
        """The claim as it is printed."""
        return f"{self.section}: {self.after + ' ' if self.after else ''}{self.row}"


_NODE_SECTIONS: Final = ("oci", "embedded", "containerd")
_FULL_SECTIONS: Final = ("full-embedded", "full-containerd")


def _of_nodes() -> Iterable[Claim]:
    for column, section in enumerate(_NODE_SECTIONS, 1):
        yield Claim("process start → node Ready", column, section, "process start to node Ready")
        yield Claim("memory, idle", column, section, "resident memory, idle")
        yield Claim("memory with 20 pods", column, section, "resident memory, 20 pods")
        for row, what in (("1 pod", "1 pod,"), ("20 pods, the last Running", "20 pods, the last Running")):
            yield Claim(row, column, section, what)
            yield Claim("… × floor", column, section, what, of_floor=True, after=row)
    for column, section in ((2, "embedded"), (3, "containerd")):
        yield Claim("20 pods deleted, grace 2 s", column, section, "20 pods deleted")


def _of_full_nodes() -> Iterable[Claim]:
    for column, section in enumerate(_FULL_SECTIONS, 2):
        yield Claim(
            "110 pods applied at the same moment: the last Running", column, section, "110 pods, the last Running"
        )
        yield Claim("… deleted, grace 2 s, the last gone", column, section, "110 pods deleted")
        memory = "… memory with them, at once / after a minute"
        yield Claim(memory, column, section, "resident memory, 110 pods")
        yield Claim(memory, column, section, "   the same after a minute", number=1)
        yield Claim("… idle, share of one core", column, section, "idle for")


_MESSAGES: Final = (
    Claim(
        "start without the cloud: 50 pods with configmaps run",
        1,
        "offline",
        "process start to 50 pods Running",
    ),
    Claim("relist of 110 unchanged pods, processor time", 1, "relist", "relist of 110 pods"),
    Claim(
        "configmaps of 1 kB, from the socket to commit and acknowledgement",
        1,
        "ingest",
        "configmaps of 1 kB to acknowledgement, 4,000",
    ),
    Claim("bus, one way, a new message each", 1, "bus", "one way, a new message each, bus"),
    Claim("bus, request and answer", 1, "bus", "request and answer, bus"),
    Claim("bus with the flight recorder", 1, "recorder", "bus with the flight recorder on"),
    Claim("a trace page of 100,000 messages opens in Chromium", 1, "view", "opening it in Chromium"),
)
_PULL: Final = "pull and unpack 72 MB"
_NODE_PSS: Final = "node with 20 pods, all processes; of it, each container"
_RUNTIME: Final = (
    Claim("1 pod with CNI", 1, "runtime", "oci: 1 pod with CNI"),
    Claim("1 pod with CNI", 3, "runtime", "containerd: 1 pod with CNI"),
    Claim("20 pods with CNI", 1, "runtime", "oci: 20 pods with CNI"),
    Claim("20 pods with CNI", 3, "runtime", "containerd: 20 pods with CNI"),
    Claim("ExecSync of `true`", 1, "runtime", "oci: ExecSync"),
    Claim("ExecSync of `true`", 3, "runtime", "containerd: ExecSync"),
    Claim(_NODE_PSS, 1, "runtime", "oci: node with 20 pods"),
    Claim(_NODE_PSS, 1, "runtime", "oci: of that, for each container", number=1),
    Claim(_PULL, 1, "runtime", "oci: pull and unpack"),
    Claim("… memory of the puller, at most", 1, "runtime", "oci: memory of the puller"),
)
_MESH: Final = (
    Claim(
        "1,000 Services of 10 endpoints: processor time of tables and names",
        1,
        "mesh",
        "1,000 Services of 10 endpoints: processor time of tables",
    ),
    Claim("… all rules in the kernel, one transaction", 1, "mesh", "   rules in the kernel"),
    Claim("… one Service changes, until the kernel has it", 1, "mesh", "   one changes, until"),
    Claim("… memory of tables and names", 1, "mesh", "   memory"),
    Claim("… a name, asked one after another over one socket, median", 1, "mesh", "   a name, median"),
    Claim("… processor time of a name, its client's included", 1, "mesh", "   processor time of one"),
)
_CROWD_MEMORY: Final = "memory of cloudcore before, and with all nodes"
_STATUS: Final = "processor time for a pod status; 100 a second"
_OF_CLOUD: Final = (
    *(
        claim
        for column, section in ((1, "crowd-20"), (2, "crowd"))
        for claim in (
            Claim("all are registered, durably, and have their pods", column, section, "… the last has its configmap"),
            Claim("… processor time of cloudcore", column, section, "… processor time of the cloud"),
            Claim(_CROWD_MEMORY, column, section, "memory of the cloud without nodes"),
            Claim(_CROWD_MEMORY, column, section, "… with all of them", number=1),
        )
    ),
    Claim("statuses a second: durable, answered and echoed", 2, "crowd", "statuses reported"),
    Claim("memory, no pods", 1, "cloud", "memory (PSS), no pods"),
    Claim("start with 10,000 pods → first answer to a node", 1, "cloud", "start with 10,000 pods"),
    Claim("idle with one node and 50 pods, share of one core", 1, "cloud", "idle, share of one core"),
    Claim(
        "a pod written → its frame at the edge: median; 95th percentile", 1, "cloud",
        "a pod written",
    ),
    Claim("a node comes back: the last of 50 pods that it lacks", 1, "cloud", "a node reconnects"),
    Claim(_STATUS, 1, "cloud", "processor time for a pod status"),
)  # fmt: skip
CLAIMS: Final = (*_of_nodes(), *_RUNTIME, *_of_full_nodes(), *_MESSAGES, *_MESH, *_OF_CLOUD)


class ClaimError(Exception):
    """The page does not state a figure where a claim says."""


def stated(claim: Claim, text: str) -> float:
    """Return the figure that a page states; of a range, the first.

    Raises:
        ClaimError: there is no such claim.
    """
    cell = _in_prose(claim, text) if claim.column == 0 else _in_table(claim, text)
    numbers = _NUMBER.findall(cell)
    if len(numbers) <= claim.number:
        raise ClaimError(f"{claim.page}: {claim.row}: {cell!r} has no number {claim.number + 1}")
    return float(numbers[claim.number].replace(",", ""))


def _in_prose(claim: Claim, text: str) -> str:
    _, found, rest = " ".join(text.split()).partition(claim.row)
    if not found:
        raise ClaimError(f"{claim.page}: no words {claim.row!r}")
    return rest[:20]


def _in_table(claim: Claim, text: str) -> str:
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    names = [_NOTE.sub("", cells[0]) for cells in lines]
    try:
        begin = names.index(claim.after) if claim.after else 0
        return lines[names.index(claim.row, begin)][claim.column]
    except (ValueError, IndexError) as error:
        raise ClaimError(f"{claim.page}: no line {claim.row!r} with a cell {claim.column}") from error


def holds(then: float, now: float, unit: Unit) -> bool:
    """Return whether a figure is not much worse than it was: a rate lower, anything else higher."""
    return now >= then / SLACK if unit is Unit.PER_SECOND else now <= then * SLACK


def lines(claims: Sequence[Claim], measured: Mapping[str, Sequence[Row]]) -> list[tuple[str, bool]]:
    """Return the lines of the table, each with whether its claim holds.

    Args:
        claims: whose sections were measured.
        measured: the rows of each section.
    """
    found = [("| claim | place | then | now | holds? |\n|---|---|--:|--:|---|", True)]
    pages = {page: (ROOT / page).read_text() for page in {claim.page for claim in claims}}
    for claim in claims:
        then = stated(claim, pages[claim.page])
        row = next((row for row in measured[claim.section] if row.what.startswith(claim.what)), None)
        now = None if row is None else _figure(claim, row)
        if row is None or now is None:
            found.append((f"| {claim.name} | {claim.page} | {then:g} | not measured | no |", False))
            continue
        unit = Unit.COUNT if claim.of_floor else row.unit
        is_held = holds(then, now, unit)
        texts = [f"{value:.3g}" if claim.of_floor else unit.write(value) for value in (then, now)]
        verdict = "yes" if is_held else "**no**"
        found.append((f"| {claim.name} | {claim.page} | {texts[0]} | {texts[1]} | {verdict} |", is_held))
    return found


def _figure(claim: Claim, row: Row) -> float | None:
    if not claim.of_floor:
        return row.measurement
    return None if row.floor is None else row.measurement / row.floor
