"""The embedded API server gives the responses of a real kube-apiserver 1.32 to the recorded requests, in order."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from beehive.module import Module
from modules.cloud.apiserver.access.service import AccessService, NodeCaller
from modules.cloud.apiserver.endpoints.service import Requester
from modules.cloud.apiserver.module import ApiServer
from modules.cloud.authentication.authenticator import Authenticator
from modules.cloud.authentication.token_file import StaticTokens
from modules.cloud.authentication.users import ADMINISTRATORS, User
from modules.cloud.storage.watch_history import WatchHistory
from modules.processes.cloudcore.control import Control
from tests.interop.kubernetes_forms import RecordedExchange, Story, recorded_exchanges, shown
from tests.modules.processes.cloudcore.stubs import Stub
from tests.support.patience import PATIENCE

M = TypeVar("M", bound=Module)
NO_RIGHTS: Final = "system:serviceaccount:kubeedge:cloudcore (no rights)"
USERS: Final = {
    "system:masters": User("admin", groups=(ADMINISTRATORS,)),
    "system:node:e1": User("system:node:e1", groups=("system:nodes",)),
    NO_RIGHTS: User("system:serviceaccount:kubeedge:cloudcore"),
}

_WORDS: Final = "the words are the same up to a dump of both specs as Go prints them; ours names the fields"
_NO_OWNERS: Final = "fields have no owners here: apply replaces, and on the status only if it is forced"

_NOT_RECORDED: Final = "the events that were there at its beginning were not recorded"

EXCEPTIONS: Final = {
    4: "a node of KubeEdge registers with its role's label, in one write",
    5: "it exists since the exchange before",
    23: _WORDS,
    35: _NO_OWNERS,
    38: "the scheduler has bound the pod already; tests/modules/cloud/apiserver/test_created_subresources.py has it",
    68: _NOT_RECORDED,
    97: "the first objects are sent in a watch",
    99: "a version that was never given ends a watch: the database may be a restored one",
    102: _NOT_RECORDED,
    103: "a version that is none is a client's mistake, 400",
}
"""By the number of the exchange, why our response differs."""
COMPACTED: Final = 119
"""The exchange before which etcd was compacted."""
BESIDE: Final = (101, 104)
"""The watches that were recorded beside the story, from its beginning to their place in it."""


def test_the_responses_equal_a_real_api_servers(tmp_path: Path) -> None:
    """Each exchange is played, watches too; a list names each one that differs, with the reason."""
    with Stub(tmp_path) as stub:
        control = _module(stub, Control)
        tokens = StaticTokens({name.encode(): user for name, user in USERS.items()})
        caller = control._caller()
        of_node = lambda node: control._api(Requester(NodeCaller(caller, node), ""))  # noqa: E731
        access = AccessService(Authenticator(tokens), control.service(), of_node, caller.call)
        found = played(Story(access.serve), recorded_exchanges(), lambda: _forget(stub), lambda: _settle(stub))
    differing = {label: differences for label, differences in found.items() if differences}
    unexpected = {label: why for label, why in differing.items() if int(label.split()[0]) not in EXCEPTIONS}
    assert not unexpected, shown(unexpected)
    needless = EXCEPTIONS.keys() - {int(label.split()[0]) for label in differing}
    assert not needless, f"no exceptions any more: {sorted(needless)}"


def _forget(stub: Stub) -> None:
    """Forget the past, as etcd did when it was compacted, and the API server when it was restarted."""
    module = _module(stub, ApiServer)

    def forget() -> None:
        module._cluster.storage.forget_past()
        module._changes._history = WatchHistory(module._cluster.storage)

    _do(module, forget)


def _settle(stub: Stub) -> None:
    """Wait until watches have been told of all that has been answered: the answer comes before."""
    for each in (ApiServer, Control):
        _do(_module(stub, each), lambda: None)


def _module(stub: Stub, kind: type[M]) -> M:
    running = stub.core.hive.slot(kind.name).running
    assert running is not None
    module = running.ref._actor_weakref()
    assert isinstance(module, kind)
    return module


def _do(module: Module, work: Callable[[], None]) -> None:
    """Do something on a module's thread, after what waits for it."""
    done = threading.Event()

    def do() -> None:
        work()
        done.set()

    module.call_soon(do)
    assert done.wait(PATIENCE)


def played(
    story: Story, exchanges: list[RecordedExchange], compact: Callable[[], None], settle: Callable[[], None]
) -> dict[str, list[str]]:
    """The differences of each exchange; etcd was compacted before one of them."""
    beside = {one.number: story.watch(one) for one in exchanges if one.number in BESIDE}
    found = {}
    for one in exchanges:
        label = f"{one.number} {one.label}"
        if one.number == COMPACTED:
            compact()
        if one.events is None:
            found[label] = story.play(one)
        else:
            watch = beside.get(one.number) or story.watch(one)
            settle()
            found[label] = watch.differences()
    return found
