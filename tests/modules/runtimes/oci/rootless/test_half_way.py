"""What is left of a pod's network that cannot be made without root."""

from typing import Any, cast

import pytest

from modules.runtimes.oci.rootless.pod_network import RootlessPodNetwork
from tests.support.failing import Failing, PlannedError


@pytest.mark.parametrize(
    ("at", "undone"), [(0, []), (1, ["ports"]), (2, ["sandbox"])], ids=["the node's", "the sandbox's", "the ports"]
)
def test_a_network_that_fails_half_way_keeps_no_port_and_no_address(at: int, undone: list[str]) -> None:
    failing, done, network = Failing(at), list[str](), cast("Any", RootlessPodNetwork.__new__(RootlessPodNetwork))
    network._forward = failing.call(lambda *_: None)
    network._reserve_ports = lambda *_: ()
    network._within = failing.call(lambda *_: None)
    network._give_back = lambda _: done.append("ports")
    network.detach = lambda *_: done.append("sandbox")
    with pytest.raises(PlannedError):
        network.attach("a", None, None, None)
    assert done == undone
