"""Captures of other programs, replayed against ours in the role of either side.

There is only the link: what a real cloud and a real edge said to each other. Against our edge (edgehub, metamanager and
edged on a runtime in memory) the cloud says what the real one said: what was unasked at its time, answers when ours has
asked. Ours must take every step that the real edge took: ask what it asked, acknowledge what it acknowledged, report
the phases that it reported. Against our cloudhub the edge says what the real one said, and a stand-in for the
controller what the real cloud answered; what reaches the node and the controller must be what was captured.
"""

import time
from pathlib import Path

from beehive.names import ModuleName
from modules.replay.against_cloud import AgainstCloud
from modules.replay.against_edge import AgainstEdge
from modules.replay.compare import EDGE, differences
from modules.replay.errors import ReplayError
from modules.replay.outputs import NODE
from modules.replay.recorded import Recorded
from modules.replay.run import AFTER, Pace, Replayed


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
    stage.hive.start()
    end = recorded.end if until is None else min(until, recorded.end)
    while (now := stage.simulation.clock.monotonic()) < end + AFTER:
        if pace is not None:
            pace(now)
        stage.simulation.run_for(end + AFTER - now if pace is None else 0.05)
    took = time.perf_counter() - began
    theirs, ours = stage.outputs()
    theirs = [one for one in theirs if one.time <= end]
    return Replayed(
        module, stage.fed, theirs, ours, differences(theirs, ours, end + EDGE), end, took, stage.ear.records
    )
