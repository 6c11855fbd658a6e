"""One row: its installation is built, walked, cut off or started again, lived in for a while, and looked at."""

import re
import time
import traceback
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.walks.account import Account
from tests.walks.errors import InstallError, WalkError
from tests.walks.factors import Row
from tests.walks.screens import Contradiction, Fact, Page, contradictions, of_cloud, of_node
from tests.walks.walks import WALKS, pod
from tests.walks.world import World

LIFE: Final = 45.0
"""Seconds that a row is lived in: longer than a Lease that nobody renews (40 s)."""
_SETTLED_SECONDS: Final = 60.0
"""Within which screens say the same again: a node that is away is NotReady after 40 s."""
_CUT_SECONDS: Final = 40.0
"""For which a link stays cut after its node has become NotReady."""
_SHORT_CUT_SECONDS: Final = 5.0
_BUSY: Final = 0.08
"""Share of a core that a program at rest may use, on a machine that other rows use, too."""
_TRACEBACK: Final = re.compile(r"^Traceback \(most recent call last\):.*?^\S[^\n]*$", re.MULTILINE | re.DOTALL)
_FAILED: Final = re.compile(r"^.*(?:module \S+ failed \(|was never retrieved|was never awaited).*$", re.MULTILINE)


@dataclass
class Result:
    """What a row has shown.

    Args:
        row: of the covering array.
        seconds: that it took.
        findings: what is wrong, in words.
    """

    row: Row
    seconds: float = 0.0
    findings: list[str] = field(default_factory=list)


def walk(row: Row, tree: Path, account: Account | None, uplink: str, life: float = LIFE) -> Result:
    """Walk a row and return what it has shown. What the row has made is gone then.

    Args:
        row: the installation and the walk.
        tree: the checkout whose programs are walked.
        account: the ordinary user, if the walks run as root.
        uplink: address of a name server that knows `walks.example`.
        life: seconds that it is lived in at least.
    """
    began, result = time.monotonic(), Result(row)
    world = World(row, tree, account, uplink, WALKS[row.walk].needs, life)
    try:
        with world:
            _live(world, result, life)
            _read_logs(world, result)
            result.findings += [f"left: {each}" for each in world.close()]
    except InstallError as error:
        result.findings.append(f"not installed: {error}")
    except Exception:  # noqa: BLE001 - the other rows are walked
        result.findings.append(f"not walked to its end: {traceback.format_exc()}")
    result.seconds = time.monotonic() - began
    return result


def _live(world: World, result: Result, life: float) -> None:
    began = time.monotonic()
    seen: list[Fact] = []
    with ExitStack() as stack:
        try:
            for node in world.nodes:
                world.apply(pod(f"lives-on-{node.name}", node=node.name))
            seen += WALKS[world.row.walk].do(world)
            if world.row.restart == "node-restart":
                world.restart_node()
            elif world.row.restart == "cloud-restart":
                world.restart_cloud()
            pages = [stack.enter_context(Page(world, "cloudcore"))]
            pages += [stack.enter_context(Page(world, "edgecore", number)) for number in range(len(world.nodes))]
            if world.row.link == "cut":
                result.findings += _cut(world, pages, life)
            time.sleep(max(0.0, began + life - time.monotonic()))
            result.findings += map(str, _settled(world, pages, _SETTLED_SECONDS))
            result.findings += _at_rest(world)
        except WalkError as error:
            result.findings.append(f"the walk failed: {error}")
        result.findings += map(str, contradictions(seen))
        if not result.findings and (missed := {*WALKS[world.row.walk].commands} - world.commands):
            result.findings.append(f"the walk has not run what it names: {', '.join(sorted(missed))}")


def _cut(world: World, pages: list[Page], life: float) -> list[str]:
    """Cut the link for longer than a Lease lasts, if the row lives so long; return what the screens say meanwhile."""
    found = []
    if life < LIFE:
        world.cut(_SHORT_CUT_SECONDS)
        time.sleep(_SHORT_CUT_SECONDS)
    else:
        healed = time.monotonic() + LIFE + _CUT_SECONDS
        world.cut(LIFE + _CUT_SECONDS)
        time.sleep(LIFE)
        said = _settled(world, pages, _CUT_SECONDS / 2, is_cut=True)
        late = time.monotonic() > healed
        found = [] if late else [f"while the link is cut: {each}" for each in said]
        time.sleep(max(0.0, healed - time.monotonic()))
    world.wait_for_nodes()
    return found


def _settled(world: World, pages: list[Page], seconds: float, *, is_cut: bool = False) -> list[Contradiction]:
    """Return what screens say differently, however often one looks within so many seconds."""
    deadline = time.monotonic() + seconds
    while True:
        found = contradictions(_look(world, pages, is_cut=is_cut))
        if not found or time.monotonic() > deadline:
            return found


def _look(world: World, pages: list[Page], *, is_cut: bool) -> Iterable[Fact]:
    yield from of_cloud(world, pages[0])
    for number, page in enumerate(pages[1:]):
        for fact in of_node(world, number, page):
            is_of_pod = fact.about.startswith("pod ")
            yield fact._replace(about=f"{fact.about}, by its node alone") if is_cut and is_of_pod else fact


def _at_rest(world: World) -> list[str]:
    """Return which programs use the processor while nobody asks them anything, each of three times."""
    busy = world.busy()
    for _ in range(2):
        if all(share < _BUSY for share in busy.values()):
            return []
        again = world.busy()
        busy = {name: min(share, again[name]) for name, share in busy.items()}
    return [
        f"{name} uses {share:.0%} of a core while nobody asks anything"
        for name, share in busy.items()
        if share >= _BUSY
    ]


def _read_logs(world: World, result: Result) -> None:
    result.findings += world.tracebacks
    for program in world.programs():
        text = program.text()
        result.findings += [f"{program.name} has printed: {found[0][-600:]}" for found in _TRACEBACK.finditer(text)]
        result.findings += [f"{program.name} has printed: {found[0][:300]}" for found in _FAILED.finditer(text)]
