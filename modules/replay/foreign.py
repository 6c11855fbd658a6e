"""Captures of other programs, replayed against ours in the role of either side.

There is only the link: what a real cloud and a real edge said to each other. Against our edge (edgehub, metamanager and
edged on a runtime in memory) the cloud says what the real one said: what was unasked at its time, answers when ours has
asked; the link is down when it was, and the agent is started anew when it was, on what it kept. Ours must take every
step that the real edge took: ask what it asked, acknowledge what it acknowledged, report the phases that it reported.
Steps that follow from something else than the link (`modules.replay.unplayed`) are counted and not expected. Against
our cloudhub the edge says what the real one said, and a stand-in for the controller what the real cloud answered; what
reaches the node and the controller must be what was captured.
"""

import time
from pathlib import Path
from typing import Final

from beehive.names import ModuleName
from beehive.simulation import Simulation
from modules.replay.against_cloud import AgainstCloud
from modules.replay.against_edge import AgainstEdge
from modules.replay.compare import EDGE, differences
from modules.replay.errors import ReplayError
from modules.replay.outputs import NODE
from modules.replay.recorded import Recorded
from modules.replay.run import AFTER, Pace, Replayed

_STEP: Final = 0.05
"""Virtual seconds between two looks at the pace."""


def replay_capture(
    recorded: Recorded, root: Path, module: str, *, until: float | None = None, pace: Pace | None = None
) -> Replayed:
    """Replay a capture against our edge (`NODE`) or our cloudhub.

    Raises:
        ReplayError: another module is asked for.
    """
    if module not in (NODE, ModuleName.CLOUDHUB):
        hint = "without --module: against our edge; --module cloudhub: against our cloud"
        raise ReplayError("cannot replay a capture", module, hint)
    began = time.perf_counter()
    stage: AgainstEdge | AgainstCloud = AgainstEdge(recorded, root) if module == NODE else AgainstCloud(recorded)
    end = recorded.end if until is None else min(until, recorded.end)
    stage.run(end + AFTER, lambda moment: _go(stage.simulation, moment, pace))
    took = time.perf_counter() - began
    theirs, ours = stage.outputs()
    theirs = [one for one in theirs if one.time <= end]
    found = differences(theirs, ours, end + EDGE)
    return Replayed(module, stage.fed, theirs, ours, found, end, took, stage.records, stage.not_played)


def _go(simulation: Simulation, moment: float, pace: Pace | None) -> None:
    """Let virtual time pass until a moment."""
    while (now := simulation.clock.monotonic()) < moment:
        if pace is not None:
            pace(now)
        simulation.run_for(moment - now if pace is None else min(_STEP, moment - now))
