"""The answers to queries: the cluster's names from the zone, all others from the host's list of servers."""

import threading
from collections.abc import Callable, Sequence
from typing import Final

from modules.apimachinery.endpoint_addresses import endpoint_address
from modules.apimachinery.types import Pod
from modules.edge.edgemesh.backends import MeshBackend, addresses_of_pod
from modules.edge.edgemesh.dns.upstream import UpstreamResolver
from modules.edge.edgemesh.dns.wire import (
    CLASS_IN,
    LARGEST,
    Code,
    DnsAnswer,
    Question,
    Record,
    Type,
    name_data,
    read_question,
    refusal,
    target_of,
    write,
)
from modules.edge.edgemesh.dns.zone import TTL, Zone
from modules.edge.edgemesh.objects import Service, ServiceKey

_MINIMAL: Final = b"\x07RFC8482\x00"
"""Data of the HINFO record that answers a query for all types (RFC 8482)."""


class DnsNames:
    """The zone and the other servers behind one lock; the module changes it, and the server's threads ask.

    Args:
        zone: of the cluster.
        resolver: for all other names.
    """

    def __init__(self, zone: Zone, resolver: UpstreamResolver) -> None:
        self._zone = zone
        self._resolver = resolver
        self._lock = threading.Lock()
        self.pod_addresses: frozenset[str] = frozenset()
        """Of the node's pods."""

    def known(self) -> None:
        """Note that the cloud has sent its Services."""
        with self._lock:
            self._zone.is_known = True

    def put(
        self, key: ServiceKey, service: Service | None, addresses: Sequence[str], backends: Sequence[MeshBackend]
    ) -> None:
        """See `Names.put`."""
        with self._lock:
            self._zone.put(key, service, addresses, backends)

    def pods_changed(self, pods: tuple[Pod, ...]) -> None:
        """Take the node's pods."""
        found = frozenset(
            (pod.metadata.namespace, address)
            for pod in pods
            for text in addresses_of_pod(pod)
            if (address := endpoint_address(text))
        )
        with self._lock:
            self._zone.set_pods(found)
        self.pod_addresses = frozenset(address for _, address in found)

    def at_once(self, question: Question, room: int = LARGEST) -> DnsAnswer | None:
        """Return the answer if it needs no other server. Does not block for long.

        Args:
            question: name and type.
            room: bytes of the message; of more records than fit, one more may be returned.
        """
        if question.has_edns and question.edns_version:
            return DnsAnswer(Code.BADVERS)
        if question.opcode:
            return DnsAnswer(Code.NOTIMP, is_ours=False)
        if question.class_ != CLASS_IN or question.type in (Type.IXFR, Type.AXFR):
            return DnsAnswer(Code.REFUSED, is_ours=False)
        with self._lock:
            is_below = self._zone.is_below(question.name)
            found = self._zone.answer(question.name, question.type, room) if is_below else None
            if question.type == Type.ANY and (found is None or found.code != Code.NXDOMAIN):
                return DnsAnswer(Code.NOERROR, (Record(question.name, Type.HINFO, TTL, _MINIMAL),))
            if found is not None:
                return found if self._ends_here(found, question) else None
            if question.type == Type.PTR and (named := self._zone.reverse(question.name)) is not None:
                return named
        return self._resolver.remembered(question.name, question.type)

    def by_others(self, question: Question, client: str = "") -> DnsAnswer:
        """Return the answer of other servers: of the whole name, or of the name behind an ExternalName. Blocks.

        Args:
            question: name and type.
            client: whose share of the memory the answer is in.
        """
        with self._lock:
            own = self._zone.answer(question.name, question.type) if self._zone.is_below(question.name) else None
        if own is None:
            return self._resolver.resolve(question, client)
        if self._ends_here(own, question):  # the Service has changed meanwhile
            return own
        target = _alias_of(own)
        found = self._resolver.resolve(question_about(question, target), client)
        return found._replace(answers=(*own.answers, *found.answers))

    @property
    def domain(self) -> str:
        """The cluster's domain."""
        return self._zone.domain

    def explained(self, question: Question) -> tuple[DnsAnswer, str]:
        """Return the answer, and its source in words. Blocks."""
        found = self.at_once(question)
        if found is not None:
            source = f"{found.source}, remembered" if found.source else "this node"
            return found, source if found.is_ours or found.source else "nobody: no name server has answered lately"
        found = self.by_others(question)
        return found, found.source or "nobody: no name server answers"

    def _ends_here(self, found: DnsAnswer, question: Question) -> bool:
        target = _alias_of(found)
        return not target or question.type == Type.CNAME or self._zone.is_below(target)


def answer_to(data: bytes, names: DnsNames, count: Callable[[Code], None], *, udp: bool) -> bytes | Question | None:
    """Return the message that answers a query, the question if other servers must be asked, and None for no answer."""
    question = read_question(data)
    if question is None:
        return None
    if isinstance(question, Code):
        count(question)
        return refusal(data, question)
    found = names.at_once(question, question.room(udp=udp))
    if found is None:
        return question
    count(found.code)
    return write(question, found, udp=udp)


def question_about(question: Question, name: str) -> Question:
    """Return the same question about another name."""
    raw = name_data(name) + question.raw[-4:]
    return question._replace(raw=raw, name=name)


def _alias_of(answer: DnsAnswer) -> str:
    """Return the name at the end of a chain of aliases; empty where the answer has none, or has the addresses too."""
    last = answer.answers[-1] if answer.answers else None
    return target_of(last) if last is not None and last.type == Type.CNAME else ""
