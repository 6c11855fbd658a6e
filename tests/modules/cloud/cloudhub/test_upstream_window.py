"""How many of a node's messages controllers have at a time, as a state machine without effects."""

from modules.cloud.cloudhub.upstream_window import _HELD, HANDLED_TIMEOUT, UpstreamWindow


def test_what_takes_too_long_is_waited_for_no_longer() -> None:
    """Not before, however late it is on the clock; then the next ones go on, by node."""
    upstream: UpstreamWindow[str] = UpstreamWindow(messages=1)
    assert list(upstream.offer("n1", "a", 1, 1000.0)) == ["a"]
    assert list(upstream.offer("n1", "b", 1, 1000.0)) == []
    assert list(upstream.offer("n2", "c", 1, 1001.0)) == ["c"]
    assert list(upstream.expire(1000.0 + HANDLED_TIMEOUT - 0.1)) == []
    assert list(upstream.expire(1000.0 + HANDLED_TIMEOUT)) == [("n1", "b")]
    assert list(upstream.handled("n1", 1, 1006.0)) == []
    list(upstream.expire(1006.0 + HANDLED_TIMEOUT))
    assert len(upstream) == 0, "nothing is kept of nodes that say nothing"


def test_what_waits_of_a_node_is_bounded() -> None:
    upstream: UpstreamWindow[int] = UpstreamWindow(messages=1)
    passed: list[int] = []
    for number in range(_HELD + 1):
        assert not upstream.is_full("n1")
        passed += upstream.offer("n1", number, 1, 0.0)
    assert upstream.is_full("n1")
    assert not upstream.is_full("n2")
    while len(upstream):
        passed += upstream.handled("n1", 1, 0.0)
    assert passed == list(range(_HELD + 1))


def test_bytes_are_bounded_too_and_a_larger_message_is_alone() -> None:
    """Whatever has been handled before."""
    upstream: UpstreamWindow[str] = UpstreamWindow(messages=10, limit=100)
    assert list(upstream.offer("n1", "large", 500, 0.0)) == ["large"]
    assert list(upstream.offer("n1", "a", 60, 0.0)) == []
    assert list(upstream.offer("n1", "b", 40, 0.0)) == []
    assert list(upstream.offer("n1", "c", 1, 0.0)) == []
    assert list(upstream.handled("n1", 1, 0.0)) == ["a", "b"]
    assert list(upstream.handled("n1", 1, 0.0)) == ["c"]
