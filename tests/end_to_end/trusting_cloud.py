"""`python -m tests.end_to_end.trusting_cloud`: a cloudcore that trusts its records of what its nodes have.

This project's own sends a restarted node all that it needs. KubeEdge's sends nothing that an edge has ever
acknowledged, unless it changes (ObjectSync, docs/protocol.md, "ObjectSync"): a node that has lost its database must
help itself.
"""

import sys
from unittest.mock import patch

from modules.cloud.edgecontroller.state.object_syncs import ObjectSyncs
from modules.processes.cloudcore.cli import main


def is_needed(syncs: ObjectSyncs, node: str, uid: str, _version: int) -> bool:
    """When a node connects: only what it has never acknowledged. Changes are sent as they happen."""
    sync = syncs.of(node).get(uid)
    return sync is None or not sync.version


if __name__ == "__main__":
    with patch.multiple(ObjectSyncs, node_restarted=lambda *_: None, is_needed=is_needed):
        sys.exit(main())
