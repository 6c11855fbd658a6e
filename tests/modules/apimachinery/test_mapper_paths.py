"""Which Devices the paths at the HTTP servers of mappers name."""

import pytest

from modules.apimachinery.mapper_paths import namespace_of_path, parts_of_path


@pytest.mark.parametrize(
    ("target", "namespace"),
    [
        ("/api/v1/devicemethod/bank/heater/turn/on/true", "bank"),
        ("/api/v1/device/bank/heater/on?x=1", "bank"),
        ("/api/v1/database/bank/heater", "bank"),
        ("/api/v1/meta/model/bank/heater", "bank"),
        ("/api/v1/devicemethod%2Fbank/heater", "bank"),
        ("//api/./x/../v1/device/bank", "bank"),
        ("/api/v1/device/own/../bank/heater", "bank"),
        ("/../api/v1/device/bank", "bank"),
        ("/api/v1/devicemethod", ""),
        ("/api/v1/devices/bank/heater", ""),
        ("/api/v1/ping", ""),
        ("/door?/api/v1/device/bank", ""),
        ("/", ""),
    ],
)
def test_a_path_names_the_namespace_of_its_device(target: str, namespace: str) -> None:
    assert namespace_of_path(target) == namespace


def test_a_path_has_the_parts_that_a_mapper_sees() -> None:
    assert parts_of_path("/a//b%2Fc/./d/../%2E%2e/e?f/g") == ["a", "b", "e"]
