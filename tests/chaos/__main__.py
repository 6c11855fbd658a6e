"""`make chaos`: 504 failures of the links of eight nodes, 200 kills of edgecore, 100 of cloudcore, and 300 configmaps
that change for five minutes while the agent's memory is measured, and five minutes of rest. The invariants are asserted
on the way; the results are printed.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.chaos import campaign, kills, memory


def main() -> None:
    """Run the campaigns that the arguments choose."""
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
