"""The nftables rules for the tables of a node, and what changes from one state to the next. Pure.

Each IP version has a table `edgecore`. A packet's address, protocol and port find a chain in a map, so that its cost
does not grow with the number of Services; the chain chooses an endpoint. Names are hashes and addresses are canonical,
so that nothing of an object's text gets into the rules.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from modules.edge.edgemesh.tables import Address, MeshTarget, PortTable

TABLE: Final = "edgecore"
"""Name of the tables."""
MARK: Final = "0x4000"
"""Bit of a packet's mark: it is masqueraded (kube-proxy's)."""

_BASE: Final = {
    "nat-pre": "type nat hook prerouting priority dstnat; policy accept;",
    "nat-out": "type nat hook output priority -100; policy accept;",
    "nat-post": "type nat hook postrouting priority srcnat; policy accept;",
    "filter-forward": "type filter hook forward priority filter; policy accept;",
    "filter-output": "type filter hook output priority filter; policy accept;",
}
"""Chains that packets enter. They are never deleted: with the last chain of NAT the translation of live connections
ends.
"""


class Family(NamedTuple):
    """An IP version, in nftables' words."""

    name: str
    type: str
    loopback: str

    def quoted(self, address: Address) -> str:
        """Return an address and a port as the destination of a translation."""
        return f"[{address[0]}]:{address[1]}" if self.name == "ip6" else f"{address[0]}:{address[1]}"


IPV4: Final = Family("ip", "ipv4_addr", "127.0.0.0/8")
IPV6: Final = Family("ip6", "ipv6_addr", "::1")
FAMILIES: Final = (IPV4, IPV6)


class Ruleset(NamedTuple):
    """The rules of one IP version that depend on Services."""

    sets: dict[str, int]
    """Sets of clients that keep an endpoint, by name: for how many seconds."""
    chains: dict[str, tuple[str, ...]]
    """The rules of each chain."""
    elements: dict[str, dict[str, str]]
    """The elements of each set or map, with the values of a map."""

    def remembered(self) -> "KnownRules":
        """Return the base of the next comparison: the text of the rules would take most of the memory."""
        return KnownRules(self.sets, {name: hash(lines) for name, lines in self.chains.items()}, self.elements)


class KnownRules(NamedTuple):
    """The rules that the kernel has. Python's hashes have a key that nobody else knows."""

    sets: dict[str, int]
    chains: dict[str, int]
    """The hashes of the rules of each chain."""
    elements: dict[str, dict[str, str]]


NO_RULES: Final = KnownRules({}, {}, {})


def ruleset(family: Family, ports: Iterable[PortTable], pods: Iterable[str]) -> Ruleset:
    """Return the rules for ports of Services and addresses of the node's pods.

    A Service's ClusterIP is no other Service's external address, also while it has no endpoints, or not this port; nor
    is a pod's.
    """
    is_ipv6 = family is IPV6
    ports = tuple(each for each in ports if each.is_ipv6 == is_ipv6)
    rules = Ruleset({}, {}, {"services": {}, "nodeports": {}, **{name: {} for name in _sets(family)}})
    for address in pods:
        if (":" in address) == is_ipv6:
            rules.elements["hairpin"][f"{address} . {address}"] = ""
            rules.elements["pods"][address] = ""
    rules.elements["cluster-ips"].update((address, "") for port in ports for address in port.addresses)
    for port in ports:
        _add_port(rules, family, port)
    return rules


def whole(family: Family, rules: Ruleset, *, sees_bridges: bool = True) -> str:
    """Return the transaction that makes the whole table, also where a part of it exists.

    It deletes no base chain, and clients keep their endpoints.

    Args:
        family: the IP version.
        rules: its rules.
        sees_bridges: whether the kernel translates packets between ports of a bridge too. If not, a pod's answer would
            reach another pod of the same bridge with its own address instead of the Service's, so connections between
            pods get the node's address.
    """
    lines = [f"add table {family.name} {TABLE}", f"flush table {family.name} {TABLE}"]
    lines += [f"add map {family.name} {TABLE} {name} {{ {kind} }}" for name, kind in _maps(family).items()]
    lines += [f"flush map {family.name} {TABLE} {name}" for name in _maps(family)]
    for name, kind in _sets(family).items():
        lines.append(f"add set {family.name} {TABLE} {name} {{ type {kind}; }}")
        lines.append(f"flush set {family.name} {TABLE} {name}")
    for name, hook in _BASE.items():
        lines.append(f"add chain {family.name} {TABLE} {name} {{ {hook} }}")
    for name in _FIXED:
        lines.append(f"add chain {family.name} {TABLE} {name}")
    lines += [
        f"add rule {family.name} {TABLE} {name} {rule}"
        for name, rule in _fixed_rules(family, sees_bridges=sees_bridges)
    ]
    lines += changes(family, NO_RULES, rules)
    return "\n".join(lines) + "\n"


def changes(family: Family, before: KnownRules, after: Ruleset) -> Iterator[str]:
    """Yield the commands of the transaction from one state to the next; no line where nothing changes.

    Chains and sets that are used no more are only emptied, because older kernels take them as still in use within this
    transaction; `unused` deletes them later.
    """
    table = f"{family.name} {TABLE}"
    for name, seconds in after.sets.items():
        if name not in before.sets:
            kind = f"type {family.type}; flags dynamic,timeout; timeout {seconds}s; size 65535;"
            yield f"add set {table} {name} {{ {kind} }}"
    changed = [name for name, lines in after.chains.items() if before.chains.get(name) != hash(lines)]
    for name in changed:
        yield f"add chain {table} {name}"
        yield f"flush chain {table} {name}"
    for name in changed:
        for line in after.chains[name]:
            yield f"add rule {table} {name} {line}"
    for name in (*before.elements, *(each for each in after.elements if each not in before.elements)):
        yield from _elements(table, name, before.elements.get(name, {}), after.elements.get(name, {}))
    for name in before.chains.keys() - after.chains.keys():
        yield f"flush chain {table} {name}"


def unused(family: Family, gone: Iterable[str], rules: KnownRules) -> Iterator[str]:
    """Yield the commands that delete chains and sets, except for chains and sets that are in use again."""
    table = f"{family.name} {TABLE}"
    names = sorted(name for name in gone if name not in rules.chains and name not in rules.sets)
    for name in names:
        if not name.startswith(_SET):
            yield f"flush chain {table} {name}"
    for name in names:
        yield f"delete {'set' if name.startswith(_SET) else 'chain'} {table} {name}"


def names(rules: Ruleset | KnownRules) -> frozenset[str]:
    """Return the names of the chains and sets that come and go with Services."""
    return frozenset({*rules.chains, *rules.sets})


def is_temporary(name: str) -> bool:
    """Return whether a chain or set of the table comes and goes with Services."""
    return name.startswith((_SET, *_CHAINS))


def deletion() -> str:
    """Return the transaction that deletes both tables, whether or not they exist."""
    return "".join(f"add table {each.name} {TABLE}\ndelete table {each.name} {TABLE}\n" for each in FAMILIES)


_SET: Final = "aff-"
_CHAINS: Final = ("svc-", "ext-", "ep-")
_FIXED: Final = ("dispatch", "check")


def _maps(family: Family) -> dict[str, str]:
    return {
        "services": f"type {family.type} . inet_proto . inet_service : verdict;",
        "nodeports": "type inet_proto . inet_service : verdict;",
    }


def _sets(family: Family) -> dict[str, str]:
    return {
        "cluster-ips": family.type,
        "no-endpoints": f"{family.type} . inet_proto . inet_service",
        "hairpin": f"{family.type} . {family.type}",
        "pods": family.type,
    }


def _fixed_rules(family: Family, *, sees_bridges: bool) -> Iterator[tuple[str, str]]:
    name = family.name
    yield "nat-pre", "jump dispatch"
    yield "nat-out", "jump dispatch"
    yield "nat-post", f"{name} saddr . {name} daddr @hairpin masquerade fully-random"
    if not sees_bridges:
        between = f"ct status dnat {name} saddr @pods {name} daddr @pods"
        yield "nat-post", f"{between} masquerade fully-random"
    yield "nat-post", f"meta mark and {MARK} == {MARK} masquerade fully-random"
    yield "filter-forward", "ct state new jump check"
    yield "filter-output", "ct state new jump check"
    yield "dispatch", f"{name} daddr . meta l4proto . th dport vmap @services"
    local = f"fib daddr type local {name} daddr != {family.loopback}"
    yield "dispatch", f"{local} meta l4proto . th dport vmap @nodeports"
    for refused in (f"{name} daddr @cluster-ips", f"{name} daddr . meta l4proto . th dport @no-endpoints"):
        yield "check", f"{refused} meta l4proto tcp reject with tcp reset"
        yield "check", f"{refused} reject"


def _add_port(rules: Ruleset, family: Family, port: PortTable) -> None:
    services, nodeports = rules.elements["services"], rules.elements["nodeports"]
    verdict = _verdict(rules, family, port, "svc", port.inside)
    for address in port.addresses if verdict else ():
        services[f"{address} . {port.protocol} . {port.port}"] = verdict
    if not port.external and not port.node_port:
        return
    kind = "svc" if port.keeps_source and port.inside == port.outside else "ext"
    outer = _verdict(rules, family, port, kind, port.outside)
    if port.keeps_source and kind == "ext" and outer and port.inside.packed:
        outer = _own_inside(rules, family, port, verdict, outer)
    clusters, pods = rules.elements["cluster-ips"], rules.elements["pods"]
    for address in (each for each in port.external if each not in clusters and each not in pods):
        at = f"{address} . {port.protocol} . {port.port}"
        if outer:
            services.setdefault(at, outer)
        else:
            rules.elements["no-endpoints"][at] = ""
    if port.node_port and outer:
        nodeports.setdefault(f"{port.protocol} . {port.node_port}", outer)


def _verdict(rules: Ruleset, family: Family, port: PortTable, kind: str, target: MeshTarget) -> str:
    """Add the chain for a target; return what becomes of packets for it, empty if nothing does."""
    if not target.packed:
        return "drop" if target.drops else ""
    name = f"{kind}-{_hash(port.key)}"
    marks = kind == "ext" and not port.keeps_source
    if marks and target == port.inside:
        rules.chains[name] = (f"meta mark set mark or {MARK}", f"goto svc-{_hash(port.key)}")
    elif name not in rules.chains:
        mark = (f"meta mark set mark or {MARK}",) if marks else ()
        rules.chains[name] = (*mark, *_choice(rules, family, port, target))
    return f"goto {name}"


def _own_inside(rules: Ruleset, family: Family, port: PortTable, inside: str, outside: str) -> str:
    """Send what pods and programs of the node send to an external address or a node port to the endpoints for inside,
    whatever the policy Local leaves to others (as kube-proxy); return the verdict for all.
    """
    name = f"ext-{_hash(port.key)}"
    rules.chains[name] = (
        f"{family.name} saddr @pods {inside}",
        f"fib saddr type local meta mark set mark or {MARK}",
        f"fib saddr type local {inside}",
        *rules.chains.get(name, (outside,)),
    )
    return f"goto {name}"


def _choice(rules: Ruleset, family: Family, port: PortTable, target: MeshTarget) -> tuple[str, ...]:
    """Return the rules that choose one of the endpoints, each as often."""
    ends = target.endpoints
    proto = f"meta l4proto {port.protocol}"
    if port.affinity:
        return _sticky(rules, family, port, ends)
    if len(ends) == 1:
        return (f"{proto} dnat to {family.quoted(ends[0])}",)
    parts = ", ".join(f"{number} : {address} . {to}" for number, (address, to) in enumerate(ends))
    return (f"{proto} dnat {family.name} to numgen random mod {len(ends)} map {{ {parts} }}",)


def _sticky(rules: Ruleset, family: Family, port: PortTable, ends: tuple[Address, ...]) -> tuple[str, ...]:
    """Return the rules that first look where a client went before. Its time begins again with each connection.

    A client that a full set cannot keep is translated all the same: the rule ends where a set has no room.
    """
    chains = []
    for end in ends:
        mark = _hash(f"{port.key}/{end[0]}/{end[1]}/{port.affinity}")
        clients, chain = f"{_SET}{mark}", f"ep-{mark}"
        rules.sets[clients] = port.affinity
        proto = f"meta l4proto {port.protocol}"
        rules.chains[chain] = (
            f"{proto} update @{clients} {{ {family.name} saddr }}",
            f"{proto} dnat to {family.quoted(end)}",
        )
        chains.append((clients, chain))
    again = tuple(f"{family.name} saddr @{clients} goto {chain}" for clients, chain in chains)
    if len(chains) == 1:
        return (f"goto {chains[0][1]}",)
    parts = ", ".join(f"{number} : goto {chain}" for number, (_, chain) in enumerate(chains))
    return (*again, f"numgen random mod {len(chains)} vmap {{ {parts} }}")


def _elements(table: str, name: str, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    gone = [key for key, value in before.items() if after.get(key) != value]
    come = [_element(key, value) for key, value in after.items() if before.get(key) != value]
    if gone:
        yield f"delete element {table} {name} {{ {', '.join(gone)} }}"
    if come:
        yield f"add element {table} {name} {{ {', '.join(come)} }}"


def _element(key: str, value: str) -> str:
    return f"{key} : {value}" if value else key


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
