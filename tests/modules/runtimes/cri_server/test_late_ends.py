"""The ends of local calls, and what their clients get."""

from modules.runtimes.cri_server.local_calls import _copies, _End
from protos.cri.v1 import api_pb2 as cri


def test_who_asks_for_the_end_of_a_call_that_is_over_learns_it() -> None:
    """As by gRPC: a command whose client had gone before it began would run for nobody."""
    end, told = _End(), list[str]()
    assert end.on_end(lambda: told.append("end"))
    end.come()
    assert not end.on_end(lambda: told.append("late"))
    assert told == ["end"]


def test_each_reader_of_events_has_messages_of_its_own() -> None:
    """One that changes its own would change those of the others."""
    event = cri.ContainerEventResponse(container_id="c")
    (copied,) = _copies(iter([event]))
    assert copied == event
    assert copied is not event
