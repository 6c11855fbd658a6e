"""Values that a shell can complete from a running edgecore or cloudcore."""

import argparse
from collections.abc import Callable, Iterable
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec

from beehive.decoding import decode_json
from modules.processes.common.completion import SECONDS, Completer

KINDS: Final = {
    "pods": ("pod", "po"),
    "nodes": ("node", "no"),
    "configmaps": ("configmap", "cm"),
    "secrets": ("secret",),
    "events": ("event", "ev"),
    "namespaces": ("namespace", "ns"),
    "services": ("service", "svc"),
    "serviceaccounts": ("serviceaccount", "sa"),
    "persistentvolumeclaims": ("persistentvolumeclaim", "pvc"),
    "persistentvolumes": ("persistentvolume", "pv"),
}
"""Kinds of the core group, by their plural, with other words for them."""

_GLOBAL: Final = ("nodes", "namespaces", "persistentvolumes")
_MEASURED: Final = ("pods", "nodes")
"""The kinds that `top` takes."""
_OF_PODS: Final = ("logs", "exec", "attach", "port-forward", "cp")
"""Verbs whose first word is a pod."""
_LARGEST: Final = 8 * 1024 * 1024


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""


class _Container(msgspec.Struct, frozen=True):
    name: str = ""


class _Spec(msgspec.Struct, frozen=True):
    containers: list[_Container] = []


class _Object(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()


class _List(msgspec.Struct, frozen=True):
    items: list[_Object] = []


class Values:
    """Completers for the arguments of kubectl's verbs and of the node's commands.

    Args:
        socket_of: returns the socket of the program that the options select.
        pods: path of the request for all pods.
    """

    def __init__(self, socket_of: Callable[[argparse.Namespace], Path], pods: str = "/api/v1/pods") -> None:
        self._socket_of = socket_of
        self._pods = pods

    def completers(self) -> dict[str, Completer]:
        """Return the completers by the destination of the argument."""
        return {
            "pod": self.pods, "namespace": self.namespaces, "container": self.containers, "words": self.words,
            "kind": self.kinds,
        }  # fmt: skip

    def pods(self, parsed_args: argparse.Namespace, **_: Any) -> list[str]:
        """Return the pods; pods of other namespaces than the chosen one with theirs."""
        chosen = getattr(parsed_args, "namespace", None) or "default"
        return [
            each.metadata.name
            if each.metadata.namespace == chosen
            else f"{each.metadata.namespace}/{each.metadata.name}"
            for each in self._get(parsed_args, self._pods)
        ]

    def namespaces(self, parsed_args: argparse.Namespace, **_: Any) -> set[str]:
        """Return the namespaces that have pods."""
        return {each.metadata.namespace for each in self._get(parsed_args, self._pods)} | {"default"}

    def containers(self, parsed_args: argparse.Namespace, **_: Any) -> list[str]:
        """Return the containers of the chosen pod."""
        pod = getattr(parsed_args, "pod", None) or next(iter(getattr(parsed_args, "words", None) or ()), "")
        name = pod[1] if isinstance(pod, tuple) else str(pod).rpartition("/")[2]
        found = [each for each in self._get(parsed_args, self._pods) if each.metadata.name == name]
        return [container.name for each in found for container in each.spec.containers]

    def kinds(self, **_: Any) -> list[str]:
        """Return the kinds of objects."""
        return list(KINDS)

    def words(
        self, prefix: str, parser: argparse.ArgumentParser, parsed_args: argparse.Namespace, **_: Any
    ) -> Iterable[str]:
        """Return the words that a verb takes: a pod; or a kind first, then names; or kind/name."""
        verb = parser.prog.rpartition(" ")[2]
        if verb in _OF_PODS:
            return self.pods(parsed_args)
        kind, slash, _rest = prefix.partition("/")
        if slash:
            return [f"{kind}/{name}" for name in self._names(parsed_args, kind)]
        before = [word for word in getattr(parsed_args, "words", None) or () if word != prefix]
        if before:
            return self._names(parsed_args, before[0])
        return _MEASURED if verb == "top" else [*KINDS, *(short for each in KINDS.values() for short in each)]

    def _names(self, chosen: argparse.Namespace, word: str) -> list[str]:
        kind = next((plural for plural, others in KINDS.items() if word in (plural, *others)), "")
        namespace = getattr(chosen, "namespace", None) or "default"
        if not kind:
            return []
        within = "" if kind in _GLOBAL else f"namespaces/{quote(namespace, safe='')}/"
        return [each.metadata.name for each in self._get(chosen, f"/api/v1/{within}{kind}")]

    def _get(self, chosen: argparse.Namespace, path: str) -> list[_Object]:
        """Return the objects that a request finds; none without an answer."""
        with suppress(Exception):  # nobody wants an error in the middle of a line
            from beehive.sockets.unix_sockets import connect_unix  # noqa: PLC0415 - only when there is a socket

            connection = HTTPConnection("localhost")
            try:
                connection.sock = connect_unix(self._socket_of(chosen), SECONDS)
                connection.request("GET", path)
                answer = connection.getresponse()
                if answer.status == 200:
                    return decode_json(answer.read(_LARGEST), _List).items
            finally:
                connection.close()
        return []
