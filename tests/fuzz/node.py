"""Targets of the node: objects of the API, static pods, logs, traces, requests of the local server, its own files."""

import gzip
import json
from collections.abc import Sequence
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

from beehive.codec import decode as decode_frame
from beehive.errors import TraceError
from beehive.http.client import ClientExchange
from beehive.http.errors import HttpError, HttpStatusError
from beehive.trace.reader import read
from edged.errors import ManifestError
from edged.logs.reader import LogReader
from edged.static_pods.manifest import static_pod
from edgehub.certificates.certificate import Certificate, pem_blocks
from edgehub.certificates.files import pem
from edgehub.certificates.token import Token
from edgehub.errors import AuthorityError, TokenError
from modules.apimachinery.pods.log_options import InvalidLogOptionsError, LogOptionError, LogOptions, log_options
from modules.apimachinery.types import ConfigMap, Pod, Secret, decode, encode
from modules.apimachinery.types.codec import DecodeError
from modules.apimachinery.types.nodes import Node
from modules.apimachinery.types.quantity import QuantityError, milli_value, parse_quantity
from modules.apimachinery.types.times import TimeError, parse_time
from modules.cloud.cloudhub.certificates import join_tokens
from modules.cloud.cloudhub.certificates.authority import Authority
from modules.processes.common.pod_commands.channels import CommandExit, result_of
from modules.processes.edgecore.config import ConfigError, EdgeCoreConfig
from modules.processes.edgecore.config.loading import loads
from modules.processes.edgecore.config.writing import MINIMAL_KEYS, render
from tests.beehive.http.requests import parse
from tests.fuzz.cloud import PLAIN_TOKEN, spelt
from tests.fuzz.target import Target, ViolationError, must
from tests.fuzz.wire import recorded_frames
from tests.interop.traces import recordings
from tests.support.directories import memory_parent, short_directory

_NOW: Final = 1795139667.0
_FIXTURE: Final = Path(__file__).parents[1] / "replay" / "fixtures" / "no_grace.trace"

_POD: Final[dict[str, Any]] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "labels": {"a": "b"}, "annotations": {"c": "d"}},
    "spec": {
        "containers": [
            {
                "name": "c",
                "image": "busybox",
                "command": ["sleep", "1"],
                "env": [{"name": "A", "value": "$(B)"}],
                "resources": {"limits": {"cpu": "100m", "memory": "64Mi"}},
                "livenessProbe": {"httpGet": {"port": 80, "path": "/"}, "periodSeconds": 3},
                "volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "a/b"}],
            }
        ],
        "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}],
        "tolerations": [{"operator": "Exists"}],
        "terminationGracePeriodSeconds": 2,
    },
}
_YAML: Final = b"""\
apiVersion: v1
kind: Pod
metadata: {name: web, annotations: {a: 'b'}, creationTimestamp: 2026-11-20T01:54:50Z}
spec:
  containers: &c
  - {name: c, image: busybox, command: [sleep, "1"]}
  initContainers: *c
  volumes:
  - name: v
    emptyDir: {}
  tolerations: []
"""


@cache
def _objects() -> Sequence[bytes]:
    contents = {bytes(decode_frame(frame).content) for frame in recorded_frames()}
    return (*sorted(contents), json.dumps(_POD).encode())


def _check_object(data: bytes, random: Random) -> None:
    kind: type[Any] = random.choice((Pod, ConfigMap, Secret, Node))
    try:
        found = decode(kind, data)
    except DecodeError:
        return
    must(decode(kind, encode(found)) == found, "an object is written as it was read")


def _manifests() -> Sequence[bytes]:
    bomb = b"kind: Pod\na: &a [x]\n" + b"".join(
        f"{chr(letter)}: &{chr(letter)} [{', '.join([f'*{chr(letter - 1)}'] * 9)}]\n".encode()
        for letter in range(98, 118)
    )
    return (_YAML, _YAML, json.dumps(_POD).encode(), bomb + _YAML, _YAML + b"  dnsConfig: &d {a: *d}\n")


def _check_manifest(data: bytes, _: Random) -> None:
    try:
        pod = static_pod(data, "/etc/pod.yaml", "edge-1")
    except ManifestError:
        return
    decode(Pod, encode(pod))
    must(str(pod["metadata"]["name"]).endswith("-edge-1"), "a static pod bears the node's name")


def _check_text(data: bytes, _: Random) -> None:
    """Check texts inside of objects: quantities and times."""
    text = data.decode("utf-8", "surrogateescape")
    try:
        parse_quantity(text)
        milli_value(text)
    except QuantityError:
        pass
    with suppress(TimeError):
        parse_time(text)


def _check_log(data: bytes, random: Random) -> None:
    """Check that reading a log returns only its content, and that its last lines are the last of all."""
    with short_directory("fuzz-", memory_parent()) as directory:
        path = directory / "0.log"
        packed = random.random() < 0.2
        half = random.randint(0, len(data))
        path.write_bytes(data[half:])
        older = gzip.compress(data[:half], 1) if packed and random.random() < 0.5 else data[:half]
        (directory / f"0.log.20261120-054216{'.gz' if packed else ''}").write_bytes(older)
        whole = _log(path, LogOptions())
        must(len(whole) <= len(data) * (1100 if packed else 1) + 2, "nothing is made up")
        wanted = random.randint(1, 5)
        last = _log(path, LogOptions(tail=wanted))
        must(whole.endswith(last), "the last lines are the last of all")
        _log(path, LogOptions(since=parse_time("2026-11-20T05:42:16Z"), timestamps=True))
        limited = _log(path, LogOptions(limit=7))
        must(whole[:7] == limited, "a limit is kept to")


def _log(path: Path, options: LogOptions) -> bytes:
    with closing(LogReader(path, options, lambda: True)) as reader:
        return b"".join(reader.pieces(lambda _: True))


def _logs() -> Sequence[bytes]:
    line = b"2026-11-20T05:42:16.000000001Z stdout F what the container printed\n"
    part = b"2026-11-20T05:42:17.000000001Z stderr P:x a part \n2026-11-20T05:42:17.1Z stderr F of a line\n"
    return (line * 3 + part + line, part * 3, line * 200)


def _check_trace(data: bytes, _: Random) -> None:
    with short_directory("fuzz-", memory_parent()) as directory:
        path = directory / "x.trace"
        path.write_bytes(data)
        try:
            with read(path) as reader:
                for record in reader:
                    reader.traceparent(record)
        except TraceError:
            return
        must(reader.done <= len(data), "no more is read than there is")


@cache
def _traces() -> Sequence[bytes]:
    ours = _FIXTURE.read_bytes()
    captures = [b"".join(path.read_bytes().splitlines(keepends=True)[:12])[:12000] for path in recordings()]
    return (ours[:4000], ours[:20000], *captures)


def _check_question(data: bytes, _: Random) -> None:
    """Check that no path leaves its directory, in any spelling."""
    try:
        request = parse(data)
        for part in request.parts:
            must("/" not in part and part not in ("", ".", "..") and "\0" not in part, "no part of a path climbs")
        log_options(request, 10**18)  # type: ignore[arg-type]
    except (HttpStatusError, InvalidLogOptionsError, LogOptionError):
        return


def _questions() -> Sequence[bytes]:
    return (
        b"GET /containerLogs/default/web/c?tailLines=3&sinceSeconds=5&stream=All HTTP/1.1\r\nHost: a\r\n\r\n",
        b"POST /exec/default/web/c?command=ls&command=-l&output=1 HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\nx",
        b"GET /containerLogs/../%2e%2e%2fetc/passwd?sinceTime=2026-11-20T01:54:50Z&limitBytes=9 HTTP/1.0\r\n\r\n",
        b"GET /pods?follow=true&timestamps&previous=0 HTTP/1.1\r\nHost: a\r\nA: b\r\nC:d\r\n\r\n",
    )


def _check_answer(data: bytes, random: Random) -> None:
    """The answer of a container to a probe, or of a server to the client of certificates, however it is cut."""
    exchange = ClientExchange(8192)
    exchange.request("GET", "/", [("Host", "a")])
    cut = random.randrange(len(data) + 1)
    reads = iter((data[:cut], data[cut:]))
    try:
        head = exchange.read_head(lambda: next(reads, b""))
        must(200 <= head.status < 1000, "a status is one of an answer")
        exchange.read_body(lambda: next(reads, b""), 1024)
    except HttpError:
        return


def _answers() -> Sequence[bytes]:
    return (
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: text/plain\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n3;a=b\r\nabc\r\n0\r\nX: y\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 302 Found\r\nLocation: /b?c\r\nSet-Cookie: a\r\n\r\nto the end",
        b"HTTP/1.1 204 No Content\r\nDate: Fri, 20 Nov 2026 01:54:27 GMT\r\n\r\n",
    )


def _check_channel(data: bytes, _: Random) -> None:
    must(isinstance(result_of(data), CommandExit), "every end of a command is an end")


def _ends() -> Sequence[bytes]:
    failed = {
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": "7"}]},
    }
    return (json.dumps(failed).encode(), b'{"metadata":{},"status":"Success"}', b"no JSON")


@cache
def _authority() -> Authority:
    return Authority.create(_NOW)


def _check_certificate(data: bytes, _: Random) -> None:
    for parse_it in (Certificate.from_der, Certificate.from_pem, pem_blocks):
        try:
            parse_it(data)
        except ValueError:
            continue


def _certificates() -> Sequence[bytes]:
    der = _authority().der
    server = _authority().make_server_certificate(["127.0.0.1", "cloud.example"], _NOW)[0]
    return (der, der, pem(der), server, pem(der) + server)


@cache
def _joins() -> Sequence[bytes]:
    good = join_tokens.issue(_authority().der, _authority().token_key, join_tokens.Claims(_NOW + 3600))
    return (good.encode(), good.upper().encode(), f" {good}\n".encode(), PLAIN_TOKEN, PLAIN_TOKEN)


def _check_join(data: bytes, random: Random) -> None:
    """Check that a token with another hash never accepts another CA."""
    data = spelt(data, _joins()[0][:65])
    try:
        token = Token.parse(data.decode("utf-8", "surrogateescape"))
        token.check_valid(_NOW)
        token.check_authority(_authority().der, "https://cloud:10002")
    except (TokenError, AuthorityError):
        return
    digest = _joins()[0][:64].decode()
    must(
        token.authority == digest and token.bearer not in repr(token), "the hash is that of the CA, the rest is hidden"
    )
    changed = bytearray(_authority().der)
    changed[random.randrange(len(changed))] ^= 1
    try:
        token.check_authority(bytes(changed), "https://cloud:10002")
    except AuthorityError:
        return
    raise ViolationError("a CA with one other bit is another CA")


def _check_configuration(data: bytes, _: Random) -> None:
    try:
        loads(data.decode("utf-8", "replace"))
    except ConfigError as error:
        must(bool(error.problems), "a configuration that is refused has a problem")


def _configurations() -> Sequence[bytes]:
    return (render(EdgeCoreConfig.default(), MINIMAL_KEYS).encode(), render(EdgeCoreConfig.default()).encode()[:6000])


TARGETS: Final = (
    Target("object", _objects, _check_object),
    Target("manifest", _manifests, _check_manifest, 0.3),
    Target(
        "text",
        lambda: (b"100m", b"1.5Gi", b"1e3", b"-3", b"2026-11-20T01:54:50Z", b"2026-11-20T01:54:50.123456+01:00"),
        _check_text,
    ),
    Target("log", _logs, _check_log, 0.3),
    Target("trace", _traces, _check_trace, 0.3),
    Target("question", _questions, _check_question),
    Target("answer", _answers, _check_answer),
    Target("channel", _ends, _check_channel),
    Target("certificate", _certificates, _check_certificate),
    Target("join", _joins, _check_join),
    Target("configuration", _configurations, _check_configuration, 0.1),
)
