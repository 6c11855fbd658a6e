"""Hostile users and nodes at the secure port of one `cloudcore` process, each attack with sixteen connections.

An administrator reads a ConfigMap meanwhile, one request after the other. The attackers are in a process of their own,
and take their share of the machine.

    python -m tests.bench.hostile_users [SECONDS]
"""

import argparse
import multiprocessing
import ssl
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import msgspec

from modules.cloud.cloudhub.certificates.authority_files import AuthorityFiles
from tests.bench.rows import Goal, Row, Unit, heads, written
from tests.bench.subject import resident_megabytes
from tests.end_to_end.processes import Process, wait_until
from tests.support.control_client import Apply, ControlClient
from tests.support.ports import free_port

CONNECTIONS: Final = 16
SECONDS: Final = 8.0
MEDIAN: Final = 50.0
WORST: Final = 500.0
"""Milliseconds that an administrator waits at the median, and at the longest, on a quiet machine."""
_PAUSE: Final = 0.01
_TOKENS: Final = 'admin,admin,1,"system:masters"\ntenant,tenant,2\nnobody,nobody,3\n'
_NODE: Final = {"Impersonate-User": "system:node:evil", "Impersonate-Group": "system:nodes"}
_JSON, _YAML, _APPLY = "application/json", "application/yaml", "application/apply-patch+yaml"
_PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_MAPS: Final = "/api/v1/namespaces/team/configmaps"
_THINGS: Final = "/apis/bench.example.org/v1/namespaces/team/things"
_MANY: Final = 24_000
_RBAC: Final = "rbac.authorization.k8s.io"


class Attack(NamedTuple):
    """A request that sixteen connections make without end."""

    name: str
    token: str
    method: str
    path: str
    media: str = _JSON
    body: bytes = b""
    headers: dict[str, str] = {}  # noqa: RUF012 - nobody changes it


def _attacks() -> list[Attack]:
    review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    values = b"a: [" + b"1," * 48_000 + b"]"
    keys = {f"key-{number}": "v" for number in range(_MANY)}
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "many"}, "data": keys}
    yaml = "metadata: {name: many}\ndata:\n" + "".join(f"  {key}: v\n" for key in keys)
    thing = {"apiVersion": "bench.example.org/v1", "kind": "Thing", "metadata": {"name": "t"}}
    dry, applied = "?dryRun=All", "?dryRun=All&fieldManager=bench"
    values_in_json = b'{"spec": [' + b"[]," * 20_000 + b"[]]}"
    return [
        Attack("nothing", "", "", ""),
        Attack("reviews of a user without rights, small", "nobody", "POST", _REVIEWS, body=msgspec.json.encode(review)),
        Attack("… 95 kB of YAML", "nobody", "POST", _REVIEWS, _YAML, values),
        Attack("… 60 kB of JSON", "nobody", "POST", _REVIEWS, body=values_in_json),
        Attack("… 60 kB of protobuf", "nobody", "POST", _REVIEWS, _PROTOBUF, b"k8s\0" + b"\x08\x01" * 30_000),
        Attack("objects of a user without rights, 95 kB of YAML", "nobody", "POST", _MAPS, _YAML, values),
        Attack("… in 3 MB of chunks of a byte", "nobody", "POST", _MAPS, "chunks"),
        Attack("reviews of a node, 95 kB of YAML", "admin", "POST", _REVIEWS, _YAML, values, _NODE),
        Attack("its own status, 95 kB of YAML", "admin", "PATCH", "/api/v1/nodes/evil/status", _APPLY, values, _NODE),
        Attack("a foreign status, 95 kB of YAML", "admin", "PUT", "/api/v1/nodes/good/status", _YAML, values, _NODE),
        Attack("a tenant gets a ConfigMap", "tenant", "GET", f"{_MAPS}/small"),
        Attack("… creates one of 24,000 keys in YAML", "tenant", "POST", _MAPS + dry, _YAML, yaml.encode()),
        Attack("… in JSON", "tenant", "POST", _MAPS + dry, body=msgspec.json.encode(obj)),
        Attack("… applies one of 24,000 keys in YAML", "tenant", "PATCH", f"{_MAPS}/many{applied}", _APPLY,
               b"apiVersion: v1\nkind: ConfigMap\n" + yaml.encode()),
        Attack("… an object of 4 × 9,000 numbers by default", "tenant", "POST", _THINGS + dry,
               body=msgspec.json.encode({**thing, "l": [{}] * 4})),
        Attack("… of 100 × 9,000", "tenant", "POST", _THINGS + dry,
               body=msgspec.json.encode({**thing, "l": [{}] * 100})),
        Attack("… reads a ConfigMap of 24,000 keys in YAML", "tenant", "GET", f"{_MAPS}/stored", "yaml"),
    ]  # fmt: skip


def _objects() -> list[dict[str, Any]]:
    numbers = {"type": "array", "items": {"type": "integer"}, "default": list(range(9000))}
    item = {"type": "object", "properties": {"x": numbers}}
    schema = {"type": "object", "properties": {"l": {"type": "array", "items": item}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    group, of_role = (
        "bench.example.org",
        {"apiVersion": f"{_RBAC}/v1", "metadata": {"name": "tenant", "namespace": "team"}},
    )
    keys, config = {f"key-{number}": "v" for number in range(_MANY)}, {"apiVersion": "v1", "kind": "ConfigMap"}
    rule = {"apiGroups": ["", group], "resources": ["configmaps", "things"], "verbs": ["*"]}
    tenant = {"apiGroup": _RBAC, "kind": "User", "name": "tenant"}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}},
        {**config, "metadata": {"name": "small", "namespace": "team"}, "data": {"a": "b"}},
        {**config, "metadata": {"name": "stored", "namespace": "team"}, "data": keys},
        {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
         "metadata": {"name": f"things.{group}"},
         "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}},
        {**of_role, "kind": "Role", "rules": [rule]},
        {**of_role, "kind": "RoleBinding", "subjects": [tenant],
         "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": "tenant"}},
    ]  # fmt: skip


def measure(seconds: float = SECONDS) -> Iterator[Row]:
    """Measure the administrator's waits during each attack."""
    with TemporaryDirectory() as directory, _cloud(Path(directory)) as (process, port, authority):
        for attack in _attacks():
            answers, waits = _attacked(port, authority, attack, seconds)
            told = ", ".join(f"{count} × {status}" for status, count in sorted(answers.items()))
            name = f"{attack.name}: an administrator waits" if attack.token else "no attack: an administrator waits"
            median = Row.of(name, waits, Unit.MILLISECONDS, goals=(Goal(MEDIAN),))
            yield median
            yield Row(f"  … longest ({told or 'none'})", max(waits), Unit.MILLISECONDS, goals=(Goal(WORST),))
        yield Row("memory of the cloud", resident_megabytes(process.pid), Unit.MEGABYTES)


@contextmanager
def _cloud(directory: Path) -> Iterator[tuple[Process, int, str]]:
    """Start a cloudcore, and yield it, its secure port and the file of its authority."""
    tokens, port = directory / "tokens.csv", free_port()
    tokens.write_text(_TOKENS)
    tokens.chmod(0o600)
    arguments = ["run", "--root", str(directory), "--tls", "--listen", "127.0.0.1:0", "--https-listen", "127.0.0.1:0"]
    arguments += ["--secure-port", str(port), "--token-auth-file", str(tokens), "--controllers", "none"]
    process = Process("modules.processes.cloudcore", arguments, directory / "log", preloads=())
    try:
        socket = directory / "cloudcore.sock"
        wait_until(socket.exists, "cloudcore listens")
        wrong = [each.error for each in ControlClient(socket).run(Apply(_objects())) if each.error]
        assert not wrong, wrong[0]
        yield process, port, str(AuthorityFiles(directory / "tls").authority)
    finally:
        process.kill()


def _attacked(port: int, authority: str, attack: Attack, seconds: float) -> tuple[Counter[str], list[float]]:
    """Return the answers to the attackers, by status, and the administrator's waits in milliseconds."""
    spawned = multiprocessing.get_context("spawn")
    mine, theirs = spawned.Pipe()
    attacker = spawned.Process(target=_attack, args=(port, authority, attack, seconds + 1.0, theirs))
    if attack.token:
        attacker.start()
        mine.recv()
        time.sleep(1.0)
    waits = list(_waits(port, authority, seconds))
    if not attack.token:
        return Counter(), waits
    answers: Counter[str] = mine.recv()
    attacker.join()
    return answers, waits


def _waits(port: int, authority: str, seconds: float) -> Iterator[float]:
    connection, ending = _connection(port, authority), time.monotonic() + seconds
    while time.monotonic() < ending:
        asked = time.monotonic()
        connection.request("GET", f"{_MAPS}/small", headers={"Authorization": "Bearer admin"})
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200, answer.status
        yield (time.monotonic() - asked) * 1000
        time.sleep(_PAUSE)


def _attack(port: int, authority: str, attack: Attack, seconds: float, told: Any) -> None:
    """Attack, and tell the answers by status."""
    answers, ending = Counter[str](), time.monotonic() + seconds
    threads = [
        threading.Thread(target=_ask, args=(port, authority, attack, ending, answers)) for _ in range(CONNECTIONS)
    ]
    for each in threads:
        each.start()
    told.send("begun")
    for each in threads:
        each.join()
    told.send(answers)


def _ask(port: int, authority: str, attack: Attack, ending: float, answers: Counter[str]) -> None:
    headers = {"Authorization": f"Bearer {attack.token}", **attack.headers}
    headers |= {"Accept": _YAML} if attack.media == "yaml" else {"Content-Type": attack.media}
    connection = _connection(port, authority)
    while time.monotonic() < ending:
        with suppress(TimeoutError):
            try:
                _send(connection, attack, headers)
                answer = connection.getresponse()
                answer.read()
                answers[str(answer.status)] += 1
            except (HTTPException, OSError):
                answers["ended"] += 1
                connection.close()


def _send(connection: HTTPSConnection, attack: Attack, headers: dict[str, str]) -> None:
    if attack.media != "chunks":
        connection.request(attack.method, attack.path, attack.body or None, headers)
        return
    connection.putrequest(attack.method, attack.path)
    for name, value in (*headers.items(), ("Transfer-Encoding", "chunked")):
        connection.putheader(name, value)
    connection.endheaders()
    for _ in range(3000):
        connection.send(b"1\r\nx\r\n" * 1000)
    connection.send(b"0\r\n\r\n")


def _connection(port: int, authority: str) -> HTTPSConnection:
    return HTTPSConnection("127.0.0.1", port, timeout=60, context=ssl.create_default_context(cafile=authority))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seconds", type=float, nargs="?", default=SECONDS)
    print(heads())  # noqa: T201
    for row in measure(parser.parse_args().seconds):
        print(written(row), flush=True)  # noqa: T201
