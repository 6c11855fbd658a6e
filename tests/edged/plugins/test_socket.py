"""The connection to a plug-in on a busy node."""

import socket
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock, patch

import grpc
import pytest

from beehive.clock import RealClock
from edged.errors import PluginCallError
from edged.plugins.socket import PluginSocket
from edged.server.streaming import relay
from protos.csi.v1 import api_pb2 as csi
from tests.support.csi_driver import CsiDriver
from tests.support.patience import PATIENCE


def test_a_plugin_that_is_slow_to_answer_a_connection_is_waited_for(directory: Path) -> None:
    """It had a tenth of a second, and was unavailable then."""
    clock = RealClock()
    with (
        CsiDriver(directory) as driver,
        socket.socket(socket.AF_UNIX) as front,
        socket.socket(socket.AF_UNIX) as behind,
        ThreadPoolExecutor(2) as threads,
    ):
        front.bind(str(directory / "slow.sock"))
        front.listen()
        plugin = PluginSocket(directory / "slow.sock")
        answer = threads.submit(
            plugin.call, "csi.v1.Node/NodeGetInfo", csi.NodeGetInfoRequest(), csi.NodeGetInfoResponse, PATIENCE
        )
        with pytest.raises(TimeoutError):
            answer.result(0.5)
        behind.connect(str(driver.socket))
        with front.accept()[0] as accepted:
            relayed = threads.submit(relay, accepted, behind, b"", clock, PATIENCE)
            assert answer.result(PATIENCE).node_id
            plugin.close()
            relayed.exception(PATIENCE)  # it ends with the connection, in order or not
    clock.close()


_QUOTED = "s3cret"


class Refusal(grpc.RpcError):  # type: ignore[misc]
    """A plug-in's answer that repeats a secret."""

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.INTERNAL

    def details(self) -> str:
        return f"cannot log in with {_QUOTED}"


def test_an_error_of_a_plugin_has_the_secret_nowhere(directory: Path) -> None:
    """Neither in its text nor in a cause, which a traceback would show."""
    plugin = PluginSocket(directory / "d.sock")
    refuse = Mock(side_effect=Refusal(_QUOTED))
    with (
        patch.object(plugin, "_channel", Mock(unary_unary=lambda *_, **__: refuse)),
        pytest.raises(PluginCallError) as raised,
    ):
        plugin.call(
            "csi.v1.Node/NodeGetInfo", csi.NodeGetInfoRequest(), csi.NodeGetInfoResponse, PATIENCE, secrets=[_QUOTED]
        )
    plugin.close()
    assert _QUOTED not in "".join(traceback.format_exception(raised.value))
    assert raised.value.code == "INTERNAL"
    assert refuse.call_args.kwargs == {"timeout": PATIENCE}


def test_a_call_beside_the_close_is_cancelled_and_another_mistake_is_none_of_a_plugin(directory: Path) -> None:
    plugin = PluginSocket(directory / "d.sock")
    closed = ValueError("Cannot invoke RPC on closed channel!")
    problems: list[BaseException] = []

    def call() -> None:
        try:
            plugin.call("csi.v1.Node/NodeGetInfo", csi.NodeGetInfoRequest(), csi.NodeGetInfoResponse, PATIENCE)
        except (PluginCallError, ValueError) as error:
            problems.append(error)

    with patch.object(plugin, "_channel", Mock(unary_unary=Mock(side_effect=closed), close=call)):
        call()
        plugin.close()
    assert [getattr(problem, "code", problem) for problem in problems] == [closed, "CANCELLED"]


def test_a_stream_that_breaks_off_is_an_error_of_the_plugin(directory: Path) -> None:
    """After the answers that have come."""
    plugin, first = PluginSocket(directory / "d.sock"), csi.NodeGetInfoResponse(node_id="n1")

    def answers(_: object) -> Iterator[csi.NodeGetInfoResponse]:
        yield first
        raise Refusal

    with patch.object(plugin, "_channel", Mock(unary_stream=lambda *_, **__: answers)):
        stream = plugin.stream("csi.v1.Node/NodeGetInfo", csi.NodeGetInfoRequest(), csi.NodeGetInfoResponse)
        assert next(stream) is first
        with pytest.raises(PluginCallError, match=r"NodeGetInfo.*INTERNAL"):
            next(stream)
    plugin.close()
