"""Laws of the rules in the kernel over random lives: they are the tables', whatever was refused, lost or deleted."""

import copy
import re
from contextlib import suppress
from random import Random
from typing import Any, Final

import pytest

from modules.edge.edgemesh.nft.kernel import KernelRules
from modules.edge.edgemesh.nft.program import NftError
from modules.edge.edgemesh.nft.ruleset import FAMILIES, IPV4, IPV6, is_temporary, names, ruleset
from modules.edge.edgemesh.tables import PortTable
from tests.modules.edge.edgemesh.objects import port_table

_USED: Final = re.compile(r"(?:goto|jump) ([\w-]+)|@([\w-]+)")


class Table:
    """A table of the kernel."""

    def __init__(self) -> None:
        self.chains: dict[str, list[str]] = {}
        self.sets: dict[str, dict[str, str]] = {}
        """Sets and maps with their elements."""

    def used(self) -> set[str]:
        """Return what rules and elements refer to."""
        lines = [line for lines in self.chains.values() for line in lines]
        lines += [value for elements in self.sets.values() for value in elements.values()]
        return {name for line in lines for pair in _USED.findall(line) for name in pair if name}


class Kernel:
    """A `Program` whose kernel knows the commands of this agent, and refuses what nftables refuses."""

    def __init__(self) -> None:
        self.tables: dict[str, Table] = {}
        self.fault = ""
        """Of the next transaction: `refused`, or `lost` for an answer that does not come."""
        self.has_ipv6 = True

    def apply(self, transaction: str) -> None:
        """See `Program`."""
        fault, self.fault = self.fault, ""
        after = copy.deepcopy(self.tables)
        for line in filter(None, transaction.splitlines()):
            self._do(after, *line.split(" ", 5))
        for table in after.values():
            assert table.used() <= table.chains.keys() | table.sets.keys()
        if fault != "refused":
            self.tables = after
        if fault:
            raise NftError(fault)

    def check(self, transaction: str) -> None:
        """See `Program`."""
        if "ip6" in transaction and not self.has_ipv6:
            raise NftError("no such family")

    def names(self, family: str) -> list[str]:
        """See `Program`."""
        if self.fault:
            self.fault = ""
            raise NftError("refused")
        table = self.tables.get(family, Table())
        return [*table.chains, *table.sets]

    @staticmethod
    def _do(tables: dict[str, Table], verb: str, what: str, family: str, *rest: str) -> None:
        table, (_, *named) = tables.setdefault(family, Table()), rest
        if what == "table":
            for lines in table.chains.values() if verb == "flush" else ():
                lines.clear()
            return
        name, text = named[0], "".join(named[1:]).strip("{} ")
        made: dict[str, Any] = table.chains if what == "chain" else table.sets
        match verb, what:
            case "add", "rule":
                table.chains[name].append("".join(named[1:]))
            case "add", "element":
                elements = (each.partition(" : ") for each in text.split(", "))
                table.sets[name].update((key, value) for key, _, value in elements)
            case "delete", "element":
                for each in text.split(", "):
                    del table.sets[name][each]
            case "add", _:
                made.setdefault(name, [] if what == "chain" else {})
            case "flush", _:
                made[name].clear()
            case _:
                del made[name]
                assert name not in table.used()


def _drawn(random: Random) -> dict[str, PortTable]:
    found = {}
    for port in random.sample((80, 81, 82), random.randint(0, 3)):
        is_ipv6 = random.random() < 0.3
        ends = [(f"fd00::{each}" if is_ipv6 else f"10.0.0.{each}", 8080) for each in random.sample(range(1, 4), 2)]
        made = port_table(*ends[: random.randint(0, 2)], port=port)._replace(
            is_ipv6=is_ipv6, addresses=("fd00:96::1" if is_ipv6 else "10.96.0.1",), affinity=random.choice((0, 9, 99)),
            node_port=random.choice((0, 30_000 + port)), keeps_source=random.random() < 0.5,
            external=("fd00::9" if is_ipv6 else "192.0.2.9",),
        )  # fmt: skip
        found[made.key] = made
    return found


def _is_right(kernel: Kernel, tables: dict[str, PortTable], pods: list[str]) -> None:
    for family in FAMILIES:
        wanted, table = ruleset(family, tables.values(), pods), kernel.tables[family.name]
        assert {name: tuple(table.chains[name]) for name in wanted.chains} == wanted.chains
        assert {name: table.sets[name] for name in wanted.elements} == wanted.elements
        assert wanted.sets.keys() <= table.sets.keys()
        assert all(table.chains[name] for name in ("dispatch", "check", "nat-pre", "nat-post"))


@pytest.mark.parametrize("seed", range(12))
def test_the_rules_are_those_of_the_tables_and_nothing_unused_stays(seed: int) -> None:
    random, kernel = Random(seed), Kernel()  # noqa: S311 - reproducible
    rules = KernelRules(kernel, lambda _: True)
    tables, pods = _drawn(random), ["10.86.0.2"]
    for _ in range(60):
        match random.randrange(8):
            case 0:
                rules = KernelRules(kernel, lambda _: True)  # of a process that starts again
            case 1:
                kernel.tables.clear()
                rules.forget()
            case 2 | 3 | 4:
                tables, pods = _drawn(random), random.sample(["10.86.0.2", "10.86.0.3", "fd00:86::2"], 2)
        kernel.fault = random.choice(("", "", "", "refused", "lost"))
        try:
            rules.apply(tables.values(), pods)
        except NftError:
            rules.apply(tables.values(), pods)
        kernel.fault = ""  # where there was nothing to do
        _is_right(kernel, tables, pods)
        if random.random() < 0.5:
            kernel.fault = random.choice(("", "refused", "lost"))
            with suppress(NftError):
                rules.delete_unused()
            kernel.fault = ""
            _is_right(kernel, tables, pods)
        if random.random() < 0.5:
            rules.delete_unused()
            for family in FAMILIES:
                assert set(filter(is_temporary, kernel.names(family.name))) == names(
                    ruleset(family, tables.values(), pods)
                )


def test_of_services_with_one_external_address_or_node_port_the_first_has_it() -> None:
    outside: dict[str, Any] = {"external": ("198.51.100.1",), "node_port": 30080}
    first = port_table(("10.0.0.1", 8080), port=80)._replace(**outside)
    second = port_table(("10.0.0.2", 8080), port=80)._replace(service="db", addresses=("10.96.0.2",), **outside)
    for one, other in ((first, second), (second, first)):
        alone, both = (ruleset(IPV4, given, ()).elements for given in ((one,), (one, other)))
        for name, at in (("services", "198.51.100.1 . tcp . 80"), ("nodeports", "tcp . 30080")):
            assert both[name][at] == alone[name][at]


def test_without_ipv6_in_the_kernel_ipv4_is_served() -> None:
    kernel = Kernel()
    kernel.has_ipv6 = False
    rules = KernelRules(kernel, lambda _: True)
    rules.check()
    rules.apply([port_table(("10.0.0.1", 8080))], ())
    assert kernel.tables.keys() == {IPV4.name}
    assert rules.is_whole()


def test_rules_are_whole_with_the_tables_of_both_ip_versions() -> None:
    kernel = Kernel()
    rules = KernelRules(kernel, lambda _: True)
    rules.apply([port_table(("10.0.0.1", 8080))], ())
    assert rules.is_whole()
    del kernel.tables[IPV6.name]
    assert not rules.is_whole()
