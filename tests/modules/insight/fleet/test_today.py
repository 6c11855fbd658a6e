"""The nodes that came and went in the last 24 hours."""

from modules.insight.fleet.today import MOST, Happening, today

NOW = 1_000_000.0
DAY = 86_400.0


def texts(sessions: dict[str, list[tuple[float, float]]], joined: dict[str, float] | None = None) -> list[str]:
    return [each.text for each in today(sessions, joined or {}, NOW)[0]]


def test_a_short_interruption_is_no_event() -> None:
    assert texts({"n1": [(NOW - 900.0, NOW - 300.0), (NOW - 270.0, NOW - 30.0)]}) == []


def test_a_node_that_was_away_is_back() -> None:
    assert texts({"n1": [(NOW - 200.0, 0.0), (NOW - 900.0, NOW - 500.0)]}) == ["n1 is back after 5m"]


def test_a_node_that_went_away_is_bad() -> None:
    assert today({"n1": [(NOW - 900.0, NOW - 500.0)]}, {}, NOW) == (
        [Happening(NOW - 500.0, "n1 went away", ("n1",), is_bad=True)],
        0,
    )


def test_only_this_day_counts() -> None:
    past, ahead = NOW - DAY - 1.0, NOW + 60.0
    assert texts({"n1": [(past - 900.0, past)]}, {"n2": past, "n3": NOW - DAY + 1.0, "n4": ahead}) == ["n3 joined"]


def test_nodes_that_went_within_a_minute_of_the_first_are_one_line() -> None:
    sessions = {f"n{each}": [(NOW - 9000.0, NOW - 900.0 + 40.0 * each)] for each in range(3)}
    assert texts(sessions) == ["n2 went away", "2 nodes went away"]


def test_a_line_about_a_whole_fleet_names_some_of_its_nodes() -> None:
    found, _ = today({}, {f"n{each}": NOW - 60.0 for each in range(500)}, NOW)
    assert [(each.text, len(each.nodes)) for each in found] == [("500 nodes joined", 100)]


def test_lines_about_a_single_node_are_left_out_first() -> None:
    sessions = {f"n{each}": [(0.0, NOW - 900.0 - 100.0 * each)] for each in range(MOST)}
    sessions |= {name: [(0.0, NOW - 80_000.0)] for name in ("a", "b")}
    found, more = today(sessions, {}, NOW)
    assert (found[-1].text, found[0].text, len(found), more) == ("2 nodes went away", "n0 went away", MOST, 1)
