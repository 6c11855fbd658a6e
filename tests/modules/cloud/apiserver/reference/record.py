"""Records the answers of a kube-apiserver: `python -m tests.modules.cloud.apiserver.reference.record URL SCRIPT ...`.

A SCRIPT is the name of a recorded one, whose requests are made again, or a file of JSON lines, each a `Request` without
`code` and `answer`, which becomes the script of that name; `all` is every recorded one. Of a file of the corpus,
`corpus/edge.yaml` for instance, each object of the API's own kinds is created; the script is `corpus-edge`, and for its
pods there must be a ServiceAccount `default` with `automountServiceAccountToken: false`. The server must be a
kube-apiserver of the version in `recordings.py`, alone with its etcd: without controllers, with the admission plug-ins
that are on by default, `--allow-privileged` and the service addresses 10.96.0.0/16. TOKEN is the bearer token of an
administrator (`system:masters`), and CA the file of the server's authority; without it the certificate is not
verified, so leave it out on loopback only:

    TOKEN=… CA=ca.crt python -m tests.modules.cloud.apiserver.reference.record https://127.0.0.1:6443 update-Pod

What a script makes is deleted after it. `python -m tests.modules.cloud.apiserver.reference` then writes `known.json`.
"""

import os
import re
import ssl
import sys
from collections.abc import Iterable, Iterator
from http.client import HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from beehive.decoding import json_decoder
from modules.apimachinery.kinds import is_custom
from tests.modules.cloud.apiserver.corpus.documents import collection_of, documents
from tests.modules.cloud.apiserver.reference.recordings import (
    Answers,
    Request,
    body_bytes,
    changed,
    differences,
    normalized,
    read,
    scripts,
    warnings_of,
    write,
)

_TIMEOUT = 60.0
"""Seconds without a byte after which a request has failed."""
_NAME = re.compile(rb'"metadata":\{"name":"([^"]+)"')
_MOST_DIFFERENCES = 30
"""An answer with more of them from the script's first is kept as it is."""


class Server:
    """A kube-apiserver."""

    def __init__(self, url: str, token: str, authority: str | None) -> None:
        context = ssl.create_default_context(cafile=authority)
        if authority is None:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        parts = urlsplit(url)
        self._connection = HTTPSConnection(parts.hostname or "", parts.port, timeout=_TIMEOUT, context=context)
        self._token = token

    def ask(
        self, method: str, path: str, data: bytes = b"", media: str | None = None, accept: str | None = None
    ) -> tuple[int, bytes, tuple[str, ...]]:
        """Make a request; return status, body and warnings."""
        headers = {"User-Agent": "kubectl/v1.32", "Authorization": f"Bearer {self._token}"}
        headers |= {} if media is None else {"Content-Type": media}
        headers |= {} if accept is None else {"Accept": accept}
        self._connection.request(method, path, data or None, headers)
        response: HTTPResponse = self._connection.getresponse()
        return response.status, response.read(), warnings_of(response.headers.get_all("Warning", ()))


def recorded(server: Server, requests: Iterable[Request]) -> list[Request]:
    """Make the requests of a script, delete what they have made, and return them with their answers."""
    answers, made, done = Answers(), list[str](), list[Request]()
    for request in requests:
        path = answers.filled(request.path)
        body = body_bytes(request.body)
        code, data, warnings = server.ask(request.method, path, body, request.media, request.accept)
        answers.note(data)
        if code == 201 and "dryRun" not in path:
            made.append(_path_of(request.method, path.partition("?")[0], data))
        answer = None if request.is_setup else normalized(request.body, data)
        done.append(msgspec.structs.replace(request, code=code, answer=answer, warnings=warnings, differs=None))
    for path in reversed(made):
        _delete(server, path)
    return done


def _path_of(method: str, path: str, answer: bytes) -> str:
    """Return the path of what a request has made."""
    if method != "POST":
        return path
    name = _NAME.search(answer)
    return path if name is None else f"{path}/{name[1].decode()}"


def _delete(server: Server, path: str) -> None:
    """Delete an object, although no controller is there that removes its finalizers."""
    server.ask("DELETE", f"{path}?gracePeriodSeconds=0")
    code, data, _ = server.ask("GET", path)
    if code == 200:
        left = msgspec.json.decode(data)
        left["metadata"].pop("finalizers", None)
        if left["kind"] == "Namespace":
            left["spec"].pop("finalizers", None)
            path += "/finalize"
        server.ask("PUT", path, msgspec.json.encode(left), "application/json")


def compact(requests: Iterable[Request]) -> Iterator[Request]:
    """Write bodies and answers that are much like the script's first as what differs."""
    first: Any = {}
    for request in requests:
        kept = request
        if request.is_first:
            first = request.answer or {}
        elif request.changed:
            kept = msgspec.structs.replace(kept, body=None)
            found = list(differences(request.answer, first))
            if request.code < 400 and len(found) < _MOST_DIFFERENCES:
                differs = tuple((path,) if theirs is ... else (path, theirs) for path, theirs, _ in reversed(found))
                if changed(first, *differs) == request.answer:
                    kept = msgspec.structs.replace(kept, answer=None, differs=differs)
        yield kept


def _requests(name: str) -> Iterator[Request]:
    if name.endswith(".yaml"):
        return (Request("POST", collection_of(each), each) for each in documents(Path(name)) if not is_custom(each))
    if name.endswith(".jsonl"):
        return map(json_decoder(Request).decode, Path(name).read_bytes().splitlines())
    return read(name)


def main(url: str, *names: str) -> None:
    """Record scripts."""
    server = Server(url, os.environ["TOKEN"], os.environ.get("CA"))
    for name in scripts() if names == ("all",) else names:
        script = f"corpus-{Path(name).stem}" if name.endswith(".yaml") else Path(name).stem
        write(script, list(compact(recorded(server, _requests(name)))))


if __name__ == "__main__":
    main(*sys.argv[1:])
