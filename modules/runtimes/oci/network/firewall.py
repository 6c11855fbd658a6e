"""The machine's iptables rules: one process reads all of them, another adds or deletes some.

Whoever reloads a firewall removes rules of others, so they are looked for again while pods exist. `iptables-save` costs
some milliseconds, whatever the number of rules that are looked for.
"""

import subprocess
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from modules.runtimes.oci.network.errors import PodNetworkError

IPV4: Final = "iptables"
IPV6: Final = "ip6tables"
CHECK_SECONDS: Final = 60.0
"""After which the rules are looked for again: reloading a firewall removes them."""
FORWARD: Final = "FORWARD"
"""Name of the chain that forwarded packets enter."""

_SECONDS: Final = 30.0
_LOCK_SECONDS: Final = "5"
"""Seconds that iptables waits while another program changes rules."""
_REFUSALS: Final = ("-j DROP", "-j REJECT")
_DOCKERS: Final = "DOCKER-USER"


class Rule(msgspec.Struct, frozen=True):
    """A rule of edgecore's.

    Args:
        table: name of its table.
        chain: name of its chain.
        match: the packets that it is about, as `iptables-save` writes them.
        comment: whose rule it is; with a blank, so that `iptables-save` quotes it.
        target: what becomes of the packets.
        is_first: whether it must stand before the rules of others.
    """

    table: str
    chain: str
    match: str
    comment: str
    target: str
    is_first: bool = False

    def __str__(self) -> str:
        return f"{self.match} {quoted(self.comment)} -j {self.target}"


class SavedRules:
    """The rules of one IP version when they were read.

    Args:
        text: output of `iptables-save`.
    """

    def __init__(self, text: str = "") -> None:
        self.policies: dict[tuple[str, str], str] = {}
        """By table and chain; `-` for chains that no packet enters by itself."""
        self._chains: dict[tuple[str, str], list[str]] = {}
        table = ""
        for line in text.splitlines():
            if line.startswith("*"):
                table = line[1:]
            elif line.startswith(":"):
                chain, _, rest = line[1:].partition(" ")
                self.policies[table, chain] = rest.partition(" ")[0]
            elif line.startswith("-A "):
                chain, _, rule = line[3:].partition(" ")
                self._chains.setdefault((table, chain), []).append(rule)

    def rules(self, table: str, chain: str) -> Sequence[str]:
        """Return the rules of a chain in their order."""
        return self._chains.get((table, chain), ())

    def has(self, rule: Rule) -> bool:
        """Return whether a rule is in its chain."""
        return any(f"{rule.match} {quoted(rule.comment)}" in each for each in self.rules(rule.table, rule.chain))

    def those_of(self, comment: str) -> dict[str, list[str]]:
        """Return the commands that delete all rules with a comment, by table."""
        found: dict[str, list[str]] = {}
        for (table, chain), rules in self._chains.items():
            found.setdefault(table, []).extend(f"-D {chain} {each}" for each in rules if quoted(comment) in each)
        return {table: lines for table, lines in found.items() if lines}

    def adding(self, rule: Rule) -> str:
        """Return the command that adds a rule at the end of its chain, but before a last rule for all packets."""
        if rule.is_first:
            return f"-I {rule.chain} {rule}"
        rules = self.rules(rule.table, rule.chain)
        if rules and rules[-1].startswith("-j "):
            return f"-I {rule.chain} {len(rules)} {rule}"
        return f"-A {rule.chain} {rule}"

    def chain_of_forwarding(self) -> str:
        """Return the chain for rules about forwarded packets: Docker's for rules of others, if packets enter it."""
        return _DOCKERS if f"-j {_DOCKERS}" in self.rules("filter", FORWARD) else FORWARD

    def drops_forwarded(self, interface: str) -> bool:
        """Return whether packets that come in by an interface are not forwarded, as no rule accepts them."""
        rules = self.rules("filter", FORWARD)
        refuses = self.policies.get(("filter", FORWARD)) == "DROP" or any(each.startswith(_REFUSALS) for each in rules)
        accepting = (rule for (table, _), found in self._chains.items() if table == "filter" for rule in found)
        return refuses and not any(f"-i {interface} " in f"{rule} " and "-j ACCEPT" in rule for rule in accepting)


def quoted(comment: str) -> str:
    """Return a comment as part of a rule."""
    return f'-m comment --comment "{comment}"'


def read_rules(program: str) -> SavedRules:
    """Return all rules of an IP version; `program` is IPV4 or IPV6. Raises PodNetworkError."""
    return SavedRules(_run([f"{program}-save"], ""))


def change_rules(program: str, commands: Mapping[str, Sequence[str]]) -> None:
    """Apply commands to tables, and leave all other rules as they are. Raises PodNetworkError."""
    text = "".join("\n".join([f"*{table}", *lines, "COMMIT\n"]) for table, lines in commands.items())
    if text:
        _run([f"{program}-restore", "--noflush", "-w", _LOCK_SECONDS], text)


def _run(command: list[str], text: str) -> str:
    attempt = "let packets of pods pass the firewall"
    try:
        ended = subprocess.run(command, input=text.encode(), capture_output=True, timeout=_SECONDS, check=False)
    except FileNotFoundError:
        raise PodNetworkError(attempt, f"there is no {command[0]}", "apt-get install iptables") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PodNetworkError(attempt, str(error)) from error
    if ended.returncode:
        raise PodNetworkError(attempt, ended.stderr.decode(errors="replace").strip()[:1000])
    return ended.stdout.decode(errors="replace")
