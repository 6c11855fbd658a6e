"""How much cloudhub is handed of one connection at a time, and what a closed one takes."""

import pytest

from modules.cloud.websocket.connection import _PASSED_BYTES, _PASSED_FRAMES, WebsocketLink


def passed(link: WebsocketLink, *sizes: int) -> None:
    """Messages are handed to cloudhub."""
    for size in sizes:
        link.passed_frames += 1
        link.passed_bytes += size


def has_room(link: WebsocketLink) -> bool:
    """Whether cloudhub may be handed another message now."""
    return link.admits()


def test_there_is_room_for_some_frames_and_some_bytes() -> None:
    """A larger one is alone."""
    link = WebsocketLink(lambda _: None)
    assert has_room(link)
    passed(link, *[1] * (_PASSED_FRAMES - 1))
    assert has_room(link)
    passed(link, 1)
    assert not has_room(link)
    large = WebsocketLink(lambda _: None)
    passed(large, 2 * _PASSED_BYTES)
    assert not has_room(large)
    large.handled(2 * _PASSED_BYTES)
    assert has_room(large)


def test_handled_messages_take_no_room() -> None:
    """However much that was in the life of the connection."""
    link = WebsocketLink(lambda _: None)
    for _ in range(10):
        passed(link, _PASSED_BYTES)
        link.handled(_PASSED_BYTES)
    passed(link, 1)
    assert has_room(link)
    passed(link, _PASSED_BYTES)
    assert not has_room(link)


def test_a_held_link_wakes_the_server_when_something_was_handled() -> None:
    """Without a hold it does not."""
    woken: list[WebsocketLink] = []
    link = WebsocketLink(woken.append)
    passed(link, 1, 1)
    link.handled(1)
    assert woken == []
    link.is_held = True
    link.handled(1)
    assert woken == [link]


def test_what_the_server_is_woken_for_is_there_already() -> None:
    """Its thread may look immediately, and waits for the next waking then."""
    seen: list[object] = []
    link = WebsocketLink(lambda it: seen.append((it.waiting_bytes, it.is_ended, it.closing[1], it.is_closed)))
    link.send(b"{}")
    link.end(reason="replaced")
    link.close()
    assert seen == [
        (2, False, "cloudcore is stopping", False),
        (2, True, "replaced", False),
        (2, True, "replaced", True),
    ]


def test_a_closed_link_takes_nothing() -> None:
    link = WebsocketLink(lambda _: None)
    link.close()
    with pytest.raises(ConnectionError, match="closed"):
        link.send(b"x")
    assert not link.waiting
