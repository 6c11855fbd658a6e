"""The embedded API server gives the responses of a real kube-apiserver 1.32 to the recorded requests, in order."""

from pathlib import Path
from typing import Final

import pytest

from modules.cloud.apiserver.access.service import AccessService, NodeCaller
from modules.cloud.apiserver.authentication.authenticator import Authenticator
from modules.cloud.apiserver.authentication.token_file import StaticTokens
from modules.cloud.apiserver.authentication.users import ADMINISTRATORS, User
from modules.processes.cloudcore.control import Control
from tests.interop.kubernetes_forms import FILE, Story, recorded_exchanges, shown
from tests.modules.processes.cloudcore.stubs import Stub

NO_RIGHTS: Final = "system:serviceaccount:kubeedge:cloudcore (no rights)"
USERS: Final = {
    "system:masters": User("admin", groups=(ADMINISTRATORS,)),
    "system:node:e1": User("system:node:e1", groups=("system:nodes",)),
    NO_RIGHTS: User("system:serviceaccount:kubeedge:cloudcore"),
}

_WORDS: Final = "status, reason and code are the same; the words say what to do instead of naming Go's types"
_NO_OWNERS: Final = "fields have no owners here: apply replaces, and not on the status"
_NO_NAMESPACES: Final = "a namespace need not exist for objects to be in it"
_NO_SNAPSHOT: Final = "a list in parts has the present objects in each part, so its token never expires"

EXCEPTIONS: Final = {
    4: "a node of KubeEdge registers with its role's label, in one write",
    5: "it exists since the exchange before",
    17: _WORDS,
    23: _WORDS,
    30: _WORDS,
    31: _WORDS,
    33: _WORDS,
    34: _NO_OWNERS,
    35: _NO_OWNERS,
    36: _NO_OWNERS,
    38: "the scheduler has bound the pod already; tests/modules/cloud/apiserver/test_created_subresources.py has it",
    47: _WORDS,
    53: _WORDS,
    59: _WORDS,
    74: "a node's metaserver gets no object for a deletion",
    75: _NO_NAMESPACES,
    90: "a path that is none is refused with a Status, too",
    92: _NO_NAMESPACES,
    93: _NO_NAMESPACES,
    95: _WORDS,
    119: _NO_SNAPSHOT,
    120: _NO_SNAPSHOT,
}
"""By the number of the exchange, why our response differs."""


@pytest.mark.skipif(not FILE.exists(), reason="../shared/recordings is not here")
def test_the_responses_are_those_of_a_real_api_server(tmp_path: Path) -> None:
    """Each exchange but the watches is played; one that differs is listed with the reason, and no other is."""
    with Stub(tmp_path) as stub:
        running = stub.core.hive.slot(Control.name).running
        assert running is not None
        control = running.ref._actor_weakref()
        assert isinstance(control, Control)
        tokens = StaticTokens({name.encode(): user for name, user in USERS.items()})
        access = AccessService(
            Authenticator(tokens), control.service(), lambda node: control._api(NodeCaller(control, node))
        )
        story = Story(access.serve)
        found = {f"{one.number} {one.label}": story.play(one) for one in recorded_exchanges() if not one.is_watch}
    differing = {label: differences for label, differences in found.items() if differences}
    unexpected = {label: why for label, why in differing.items() if int(label.split()[0]) not in EXCEPTIONS}
    assert not unexpected, shown(unexpected)
    needless = EXCEPTIONS.keys() - {int(label.split()[0]) for label in differing}
    assert not needless, f"no exceptions any more: {sorted(needless)}"
