"""The rates of mappers' calls."""

import pytest

from modules.edge.dmi.errors import MapperCallRefused
from modules.edge.dmi.mappers import MAX_MAPPERS
from modules.edge.dmi.quotas import ALL_REGISTRATIONS, Quotas


def test_a_mapper_that_names_a_new_protocol_each_time_is_bounded() -> None:
    """All mappers of a node may register at once, after a start of edgecore."""
    rate, burst = ALL_REGISTRATIONS
    assert burst >= MAX_MAPPERS
    quotas = Quotas(200.0, 500)
    for number in range(burst):
        quotas.registration(f"protocol-{number}", 0.0)
    for number in range(1000):
        with pytest.raises(MapperCallRefused, match="too many registrations"):
            quotas.registration(f"other-{number}", 0.0)
    quotas.registration("other", 1.0 / rate)
