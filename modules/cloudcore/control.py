"""The module `control`: kubectl's verbs over a unix socket, for `cloudcore apply|get|delete`.

Threads: one that accepts and one for each client, outside the actor model because a blocking read of a socket
has no other form; clients are few and local. A client's thread may wait for edgecontroller's answer, since no
module waits for it. The actor itself only hands changes to those who watch, through bounded queues: who does
not read is cut off.
"""

import logging
import queue
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from beehive.errors import BeehiveError
from beehive.handlers import handles
from beehive.message import Message
from beehive.module import Module
from beehive.names import ModuleName, Operation
from edged.server.errors import ServerError
from edged.server.listening import accepted, listen_unix
from modules.cloudcore.framing import METRICS, TOKEN, Call, ControlError, Reply, receive_frame, send_frame
from modules.cloudcore.metrics import exposition
from modules.cloudhub.refusals import Refusals
from modules.edgecontroller import commands
from modules.edgecontroller.commands import Changed, Get, Item, Verb
from modules.edgecontroller.errors import ApiError
from modules.edgecontroller.kinds import kind_called

_log = logging.getLogger(__name__)
_ANSWER_WITHIN = 30.0
"""Seconds edgecontroller may take for a command."""
_WATCH = "watch"
_REGISTRAR = "registrar"
_COMMANDS = (Verb.APPLY, Verb.GET, Verb.DELETE)
_CHANGES_WAITING = 4096
_CLIENT_GONE_EVERY = 1.0
"""Seconds between looks whether a client that watches is still there."""

_Changes = queue.Queue[Changed | None]


class Control(Module):
    """See the module's docstring.

    Args:
        path: of the socket. A socket that nobody listens on any more is replaced.
        refusals: for who asks what nodes were refused.
    """

    name: ClassVar[str] = commands.SOURCE
    group: ClassVar[str] = commands.SOURCE

    def __init__(self, path: Path, refusals: Refusals) -> None:
        super().__init__()
        self._path = path
        self._refusals = refusals
        self._lock = threading.Lock()
        self._watching: list[_Changes] = []
        self._clients: set[socket.socket] = set()
        self._socket: socket.socket | None = None

    def on_start(self) -> None:
        """Listens.

        Raises:
            ControlError: another process listens there, or nobody can.
        """
        self._socket = listening_socket(self._path)
        threading.Thread(target=self._accept, args=(self._socket,), name="control/accept", daemon=True).start()

    def on_stop(self) -> None:
        """Closes the socket and all connections."""
        self._close()

    def on_failure(self, exception_type: Any, exception_value: Any, traceback: Any) -> None:
        """Closes the socket and all connections; clients see the end of theirs."""
        self._close()
        super().on_failure(exception_type, exception_value, traceback)

    @handles(None, Verb.CHANGED, source=ModuleName.EDGECONTROLLER)
    def on_change(self, message: Message) -> None:
        """Hands a change of the store to those who watch."""
        changed = message.content_as(Changed)
        with self._lock:
            for changes in list(self._watching):
                try:
                    changes.put_nowait(changed)
                except queue.Full:
                    self._watching.remove(changes)

    def _close(self) -> None:
        listening, self._socket = self._socket, None
        if listening is None:
            return
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        self._path.unlink(missing_ok=True)
        with self._lock:
            for changes in self._watching:
                with suppress(queue.Full):  # its client does not read, and ends with its connection
                    changes.put_nowait(None)
            for client in self._clients:
                client.shutdown(socket.SHUT_RDWR)

    def _accept(self, listening: socket.socket) -> None:
        while (client := accepted(listening)) is not None:
            with self._lock:
                self._clients.add(client)
            threading.Thread(target=self._serve, args=(client,), name="control/client", daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            call = receive_frame(client, Call)
            if call is not None:
                self._carry_out(client, call)
        except (OSError, BeehiveError) as error:
            _log.info("a client of the control socket: %s", error)
        finally:
            with self._lock:
                self._clients.discard(client)
            client.close()

    def _carry_out(self, client: socket.socket, call: Call) -> None:
        if call.verb == _WATCH:
            self._watch(client, call.body)
        elif call.verb == TOKEN:
            send_frame(client, self._make_token(call.body))
        elif call.verb == METRICS:
            send_frame(client, Reply(metrics=exposition(self.hive, self._refusals)))
        elif call.verb in _COMMANDS:
            send_frame(client, self._ask(call.verb, call.body))
        else:
            send_frame(client, Reply(error=f"unknown verb {call.verb[:50]!r}"))

    def _ask(self, verb: str, body: dict[str, Any]) -> Reply:
        request = self.message(commands.RESOURCE, verb, body)
        try:
            answer = self.hive.request(ModuleName.EDGECONTROLLER, request, _ANSWER_WITHIN).get()
            return Reply(items=answer.content_as(commands.Result).items)
        except BeehiveError as error:
            return Reply(error=str(error))

    def _make_token(self, body: dict[str, Any]) -> Reply:
        """A token from the module `registrar`, which is there with `--tls` only."""
        if not self.hive.members(_REGISTRAR):
            return Reply(error="there are no tokens without TLS: start `cloudcore run` with --tls")
        request = self.message(_REGISTRAR, TOKEN, body)
        try:
            answer = self.hive.request(_REGISTRAR, request, _ANSWER_WITHIN).get()
            if answer.route.operation == Operation.ERROR:
                return Reply(error=answer.content_as(str))
            return Reply(token=answer.content_as(str))
        except BeehiveError as error:
            return Reply(error=str(error))

    def _watch(self, client: socket.socket, body: dict[str, Any]) -> None:
        """Sends what there is, then every change of it, until the client goes."""
        changes: _Changes = queue.Queue(_CHANGES_WAITING)
        with self._lock:
            self._watching.append(changes)
        try:
            first = self._ask(Verb.GET, body)
            seen = 0
            for item in first.items:
                seen = max(seen, _version(item.object or {}))
                send_frame(client, Reply(items=[item], change="ADDED" if item.object else ""))
            if first.error:
                send_frame(client, first)
            elif not any(item.error for item in first.items):
                self._follow(client, changes, body, seen)
        finally:
            with self._lock:
                if changes in self._watching:
                    self._watching.remove(changes)

    def _follow(self, client: socket.socket, changes: _Changes, body: dict[str, Any], seen: int) -> None:
        wanted = _Filter(body)
        while changes in self._watching:
            try:
                changed = changes.get(timeout=_CLIENT_GONE_EVERY)
            except queue.Empty:
                if _is_gone(client):
                    return
                continue
            if changed is None:
                return
            if _version(changed.object) > seen and wanted.matches(changed.object):
                send_frame(client, Reply(items=[Item(changed.object)], change=changed.change))


class _Filter:
    """Which objects a watch is about."""

    def __init__(self, body: dict[str, Any]) -> None:
        try:
            get = msgspec.convert(body, Get)
            self._kind = kind_called(get.kind)
        except (ApiError, msgspec.ValidationError) as error:
            raise ControlError("cannot watch", str(body)[:200], str(error)) from error
        self._name = get.name
        self._namespace = get.namespace if self._kind.namespaced else None

    def matches(self, obj: dict[str, Any]) -> bool:
        meta = obj["metadata"]
        return (
            obj["kind"] == self._kind.name
            and self._name in ("", meta["name"])
            and self._namespace in (None, meta.get("namespace"))
        )


def listening_socket(path: Path) -> socket.socket:
    """A unix socket that listens, which only this user can connect to.

    Raises:
        ControlError: somebody listens there already, or the path cannot be used.
    """
    try:
        if path.is_socket():
            _check_stale(path)
        return listen_unix(path, "--socket")
    except ServerError as error:
        raise ControlError("cannot listen on the control socket", str(path), error.hint) from error
    except OSError as error:
        raise ControlError("cannot listen on the control socket", str(path), str(error.strerror)) from error


def _check_stale(path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return
    raise ControlError("cannot listen on the control socket", str(path), "another cloudcore is running there")


def _is_gone(client: socket.socket) -> bool:
    try:
        return client.recv(1, socket.MSG_DONTWAIT | socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def _version(obj: dict[str, Any]) -> int:
    return int((obj.get("metadata") or {}).get("resourceVersion") or 0)
