"""What a reflector and a connection that begin anew keep of before: nothing that is over."""

import socket
from types import SimpleNamespace
from typing import Any

from modules.cloud.client.http.network_stream import NetworkStream, _Phase
from modules.cloud.client.http.transport import HttpTransport
from modules.cloud.client.reflector.effects import EpochChanged
from tests.modules.cloud.client.reflections import Reflection, page
from tests.support.failing import Failing


def test_versions_that_went_back_within_a_list_did_so_once() -> None:
    """The list that follows is of the new epoch; each one is reported, and all that nodes have is compared."""
    reflection = Reflection()
    reflection.answer(page("100", following="t"))
    reflection.answer(page("5", following="u"))
    assert reflection.of(EpochChanged) == [EpochChanged("100", "5")]
    reflection.wake()
    reflection.answer(page("6"))
    assert reflection.of(EpochChanged) == []


def test_a_watch_that_has_lasted_ends_the_growth_of_delays() -> None:
    """Also one that had nothing to tell."""
    reflection = Reflection()
    for _ in range(5):
        reflection.error()
        reflection.wake()
    reflection.synced("7")
    reflection.head()
    reflection.now += 60.0
    reflection.end()
    reflection.error()
    assert reflection.wake_at - reflection.now < 1.6


def test_bytes_that_a_connection_did_not_take_do_not_begin_the_next() -> None:
    """Nor does one that takes nothing more wait to send them: that can be told at each look."""
    server: Any = SimpleNamespace(proxy=None, text="http://192.0.2.1")
    for ends_by_itself in (True, False):
        stream = NetworkStream(server, None, "")
        stream._phase = _Phase.OPEN
        error = BrokenPipeError() if ends_by_itself else BlockingIOError()
        double: Any = SimpleNamespace(send=Failing(0, error).call(len), close=list)
        stream.socket = double
        stream.send(b"a request")
        assert (stream.is_unwritable, stream.unsent == 0) == (ends_by_itself, ends_by_itself)
        if not ends_by_itself:
            with socket.create_server(("127.0.0.1", 0)) as listening:
                stream._begin(socket.AF_INET, listening.getsockname())
                assert stream.unsent == 0
                stream.close()


def test_credentials_that_no_thread_could_fetch_are_fetched_for_the_next_request() -> None:
    """As when there are too many threads for a moment; the request that wanted them has failed."""
    failed, begun = list[Exception](), list[object]()
    exchanges = [SimpleNamespace(fail=failed.append) for _ in range(2)]
    transport: Any = HttpTransport.__new__(HttpTransport)
    transport._is_fetching, transport._server = False, SimpleNamespace(text="http://192.0.2.1")
    transport._source = SimpleNamespace(current=lambda: None)
    transport._pool = SimpleNamespace(first=lambda: exchanges[0] if exchanges else None, admit=exchanges.remove)
    transport._background = Failing(0, RuntimeError("can't start new thread")).call(lambda *_: begun.append(_))
    transport._dispatch()
    assert (len(failed), len(exchanges), len(begun)) == (1, 1, 1)
