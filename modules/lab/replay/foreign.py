"""Replays captures of other programs against our edge or our cloud.

A capture has only the link: the messages that a real cloud and a real edge sent each other. Against our edge (edgehub,
metamanager, and edged on a runtime in memory) the captured cloud sends unasked messages at their times and answers when
ours asks. The link is down when it was down, and the agent is restarted with its store when it was restarted. Ours has
to take every step of the real edge: ask the same questions, acknowledge the same messages, report the same phases.
Steps with another cause than the link (`modules.lab.replay.unplayed`) are counted and not expected.

Against our cloudhub the edge sends the messages of the real edge, and a stub controller sends the answers of the real
cloud. The messages that reach the node and the controller must be the captured ones.
"""

import time
from pathlib import Path
from typing import Final

from beehive.names import ModuleName
from beehive.simulation import Simulation
from modules.lab.replay.against_cloud import AgainstCloud
from modules.lab.replay.against_edge import AgainstEdge
from modules.lab.replay.compare import EDGE, differences
from modules.lab.replay.errors import ReplayError
from modules.lab.replay.outputs import NODE
from modules.lab.replay.recorded import Recorded
from modules.lab.replay.run import AFTER, Pace, Replayed

_STEP: Final = 0.05
"""Virtual seconds between two calls of the pace."""


def replay_capture(
    recorded: Recorded, root: Path, module: str, *, until: float | None = None, pace: Pace | None = None
) -> Replayed:
    """Replay a capture against our edge (`NODE`) or our cloudhub.

    Raises:
        ReplayError: any other module.
    """
    if module not in (NODE, ModuleName.CLOUDHUB):
        hint = "without --module: against our edge; --module cloudhub: against our cloud"
        raise ReplayError("cannot replay a capture", module, hint)
    began = time.perf_counter()
    player: AgainstEdge | AgainstCloud = AgainstEdge(recorded, root) if module == NODE else AgainstCloud(recorded)
    end = recorded.end if until is None else min(until, recorded.end)
    player.run(end + AFTER, lambda moment: _go(player.simulation, moment, pace))
    took = time.perf_counter() - began
    theirs, ours = player.outputs()
    theirs = [one for one in theirs if one.time <= end]
    found = differences(theirs, ours, end + EDGE)
    return Replayed(module, player.fed, theirs, ours, found, end, took, player.records, player.not_played)


def _go(simulation: Simulation, moment: float, pace: Pace | None) -> None:
    """Advance virtual time to a moment."""
    while (now := simulation.clock.monotonic()) < moment:
        if pace is not None:
            pace(now)
        simulation.run_for(moment - now if pace is None else min(_STEP, moment - now))
