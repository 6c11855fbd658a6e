"""Go's names of architectures."""

import pytest

from beehive.goarch import goarch


@pytest.mark.parametrize(
    ("machine", "of_64_bits", "of_32_bits"),
    [
        ("x86_64", "amd64", "386"), ("aarch64", "arm64", "arm"), ("armv7l", "arm", "arm"), ("armv6l", "arm", "arm"),
        ("armv8l", "arm", "arm"), ("armv5tel", "arm", "arm"), ("i686", "386", "386"), ("i586", "386", "386"),
        ("riscv64", "riscv64", "riscv64"), ("s390x", "s390x", "s390x"), ("loongarch64", "loong64", "loong64"),
    ],
)  # fmt: skip
def test_a_process_has_the_architecture_of_its_system(machine: str, of_64_bits: str, of_32_bits: str) -> None:
    assert (goarch(machine, 8), goarch(machine, 4)) == (of_64_bits, of_32_bits)


def test_this_machine_has_one() -> None:
    assert goarch() == goarch("", 8)
