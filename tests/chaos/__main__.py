"""`make chaos`: the links of eight nodes are hurt 504 times in all, edgecore is killed 200 times, cloudcore 100 times,
and 300 configmaps change for five minutes while the agent's memory is watched, and for five more until it is back.
Figures are printed; what must hold is asserted on the way.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.chaos import campaign, kills, memory


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description="the link and the processes under load, hurt again and again")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cuts", type=int, default=63, help="bad things, each to all nodes (default 63)")
    parser.add_argument("--nodes", type=int, default=8, help="nodes that share each of them (default 8)")
    parser.add_argument("--kills", type=int, default=200, help="of edgecore (default 200)")
    parser.add_argument("--cloud-kills", type=int, default=100, help="of cloudcore (default 100)")
    parser.add_argument("--memory", type=float, default=300.0, help="seconds of changing configmaps (default 300)")
    parser.add_argument("--rest", type=float, default=300.0, help="seconds after which memory is back (default 300)")
    chosen = parser.parse_args()
    if chosen.cuts:
        with tempfile.TemporaryDirectory() as directory:
            _say(campaign.run(Path(directory), chosen.seed, chosen.cuts, nodes=chosen.nodes, pause=2.2))
    if chosen.kills:
        _say(kills.run(chosen.seed, chosen.kills))
    if chosen.cloud_kills:
        _say(kills.run(chosen.seed, chosen.cloud_kills, cloud=True))
    if chosen.memory:
        result = memory.run(chosen.seed, chosen.memory, chosen.rest)
        _say(result)
        result.check()


def _say(result: object) -> None:
    sys.stdout.write(f"{result}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
