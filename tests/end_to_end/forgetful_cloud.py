"""`python -m tests.end_to_end.forgetful_cloud`: a cloudcore that forgets which pods a node has, with the Node object.

KubeEdge's drops what happens to pods of a node that it does not know, and tells nobody of it later; nor does it end
what a node reports and nobody wants. Its API server knows all its objects.
"""

import sys
from unittest.mock import patch

from modules.apimachinery.kinds import key_for, kind_named
from modules.cloud.apiserver.completeness import Completeness
from modules.cloud.edgecontroller.downstream.controller import DownstreamController
from modules.cloud.edgecontroller.upstream import pods as upstream_pods
from modules.cloud.edgecontroller.upstream.requests import Steps, UpstreamResult
from modules.cloud.storage.object_storage import ObjectEvent
from modules.processes.cloudcore.cli import main

_changed = DownstreamController.handle_event


def changed(downstream: DownstreamController, event: ObjectEvent) -> None:
    """What happens to pods of a node that there is not is lost."""
    node = (event.new.get("spec") or {}).get("nodeName")
    is_lost = (
        event.key.kind == "Pod" and node and downstream._lister.find(key_for(kind_named("Node"), "", node)) is None
    )
    if not is_lost:
        _changed(downstream, event)


def nobody_ends(*_: object) -> Steps[list[UpstreamResult]]:
    """What a node reports and nobody wants goes on."""
    yield from ()
    return []


if __name__ == "__main__":
    with (
        patch.object(DownstreamController, "handle_event", changed),
        patch.object(Completeness, "knows_all", new=True),
        patch.object(upstream_pods, "_end_of_unknown", nobody_ends),
    ):
        sys.exit(main())
