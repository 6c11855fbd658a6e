"""The connection to a mapper's socket."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from modules.edge.dmi.session import MapperConnection
from protos.dmi.v1beta1 import api_pb2 as dmi
from tests.modules.edge.dmi.framework import FrameworkMapper
from tests.support.patience import PATIENCE

REQUEST = dmi.RemoveDeviceModelRequest(modelName="tm", modelNamespace="ns")


def test_a_recreated_socket_is_noticed_once(tmp_path: Path) -> None:
    """At a look, and at a call; the first socket is no news, and a missing one neither."""
    mapper = FrameworkMapper(tmp_path, tmp_path / "none")
    connection = MapperConnection(mapper.socket)
    assert not connection.is_new()
    assert connection.call("RemoveDeviceModel", REQUEST, dmi.RemoveDeviceModelResponse).is_away
    mapper.serve()
    assert connection.is_new(), "there was none"
    first = connection.call("RemoveDeviceModel", REQUEST, dmi.RemoveDeviceModelResponse)
    assert (first.code, first.is_new, connection.is_new()) == ("", False, False)
    mapper.stop()
    mapper.serve()
    assert connection.is_new()
    assert connection.call("RemoveDeviceModel", REQUEST, dmi.RemoveDeviceModelResponse).is_new
    assert not connection.call("RemoveDeviceModel", REQUEST, dmi.RemoveDeviceModelResponse).is_new
    assert not connection.is_new()
    connection.close()
    mapper.stop()


def test_a_look_before_any_call_takes_the_socket_for_the_mappers(tmp_path: Path) -> None:
    """It has just registered, and opened it."""
    mapper = FrameworkMapper(tmp_path, tmp_path / "none")
    mapper.serve()
    connection = MapperConnection(mapper.socket)
    assert not connection.is_new()
    mapper.stop()


def test_closing_ends_the_call_under_way(tmp_path: Path) -> None:
    """A mapper that hangs does not hold up the end of edgecore."""
    mapper = FrameworkMapper(tmp_path, tmp_path / "none")
    mapper.hangs = threading.Event()
    mapper.serve()
    connection = MapperConnection(mapper.socket)
    with ThreadPoolExecutor(1) as threads:
        call = threads.submit(connection.call, "RemoveDeviceModel", REQUEST, dmi.RemoveDeviceModelResponse)
        assert mapper.entered.wait(PATIENCE)
        connection.close()
        assert call.result(PATIENCE).is_away
    assert connection.call("RemoveDeviceModel", REQUEST, dmi.RemoveDeviceModelResponse).is_away
    mapper.stop()


def test_a_socket_that_appears_after_a_call_is_new(tmp_path: Path) -> None:
    """The call has looked."""
    mapper = FrameworkMapper(tmp_path, tmp_path / "none")
    connection = MapperConnection(mapper.socket)
    assert connection.call("RemoveDeviceModel", REQUEST, dmi.RemoveDeviceModelResponse).is_away
    mapper.serve()
    assert connection.is_new()
    mapper.stop()
