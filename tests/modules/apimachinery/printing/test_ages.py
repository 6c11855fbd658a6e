"""Ages as kubectl rounds them."""

import pytest

from modules.apimachinery.printing.ages import ago, human_duration, seconds_of

NOW = 1_795_139_690.0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (119, "119s"), (120, "2m"), (125, "2m5s"), (600, "10m"), (10_799, "179m"), (10_800, "3h"),
     (12_000, "3h20m"), (30_000, "8h"), (172_800, "2d"), (180_000, "2d2h"), (700_000, "8d"),
     (63_071_999, "729d"), (63_072_000, "2y")],
)  # fmt: skip
def test_durations(seconds: int, text: str) -> None:
    assert human_duration(seconds) == text


@pytest.mark.parametrize(
    ("moment", "text"),
    [("2026-11-20T01:54:00Z", "50s"), ("2026-11-20T02:54:00.5+01:00", "49s"), ("2027-11-20T01:54:00Z", "0s"),
     ("", "<unknown>"), ("2026-11-20T01:54:00", "<unknown>"), ("soon", "<unknown>")],
)  # fmt: skip
def test_the_time_since_a_moment(moment: str, text: str) -> None:
    assert ago(moment, NOW) == text


def test_a_time_without_a_zone_is_not_read() -> None:
    assert seconds_of("0001-01-01T00:00:00") is None
