"""When two machines must have one name."""

from modules.cloud.cloudhub.replaced_connections import MANY, PERIOD, ReplacedConnections


def test_many_within_the_period_are_reported_once() -> None:
    counted = ReplacedConnections()
    assert [counted.record("a", float(second)) for second in range(2 * MANY)] == [*[False] * (MANY - 1), True] * 2


def test_few_in_a_longer_time_do_not_matter() -> None:
    counted = ReplacedConnections()
    assert not any(counted.record("a", number * PERIOD / (MANY - 1)) for number in range(100))


def test_each_node_counts_for_itself_and_is_forgotten() -> None:
    counted = ReplacedConnections()
    assert not any(counted.record(f"n{number}", 0.0) for number in range(100))
    counted.record("late", PERIOD)
    assert list(counted._times) == ["late"]
