"""Recording answers: requests refer to the answers before them, and what a script made is deleted."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.modules.cloud.apiserver.reference import recordings
from tests.modules.cloud.apiserver.reference.record import Server, compact, recorded
from tests.modules.cloud.apiserver.reference.recordings import Request, read, warnings_of, write

MAPS = "/api/v1/namespaces/x/configmaps"


def config_map(**data: str) -> Any:
    return {"metadata": {"name": "a"}, "data": data}


class Told(Server):
    """A server that answers what it is told to, and notes what it is asked."""

    def __init__(self, *answers: tuple[int, Any]) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    def ask(
        self, method: str, path: str, data: bytes = b"", media: str | None = None, accept: str | None = None
    ) -> tuple[int, bytes, tuple[str, ...]]:
        self.asked.append(f"{method} {path} {data.decode()}")
        status, answer = self._answers.pop(0)
        return status, msgspec.json.encode(answer), warnings_of(['299 - "unknown field \\"a\\""'])


def test_requests_refer_to_answers_before_them() -> None:
    page = {"metadata": {"continue": "c1", "resourceVersion": "7"}, "items": []}
    server = Told((200, page), (200, {"kind": "Status"}), (200, {}))
    paths = ["?limit=1", "?limit=1&continue={continue}", "?resourceVersion={version}"]
    done = recorded(server, [Request("GET", MAPS + path) for path in paths])
    assert server.asked == [f"GET {MAPS}{path} " for path in ("?limit=1", "?limit=1&continue=c1", "?resourceVersion=7")]
    assert [request.path for request in done] == [MAPS + path for path in paths]
    assert done[0].warnings == ('unknown field "a"',)
    assert done[0].answer == {"metadata": {"continue": "TOKEN"}, "items": []}


def test_objects_of_a_script_are_deleted_also_with_finalizers() -> None:
    namespace = {"kind": "Namespace", "metadata": {"name": "n"}, "spec": {"finalizers": ["kubernetes"]}}
    kept = {"kind": "ConfigMap", "metadata": {"name": "a", "finalizers": ["b/c"]}}
    server = Told((201, namespace), (201, kept), (201, kept), (200, {}), (200, kept), (200, {}),
                  (200, {}), (200, namespace), (200, {}))  # fmt: skip
    recorded(server, [
        Request("POST", "/api/v1/namespaces"), Request("PUT", f"{MAPS}/a"), Request("POST", f"{MAPS}?dryRun=All"),
    ])  # fmt: skip
    assert server.asked[3:] == [
        f"DELETE {MAPS}/a?gracePeriodSeconds=0 ",
        f"GET {MAPS}/a ",
        f'PUT {MAPS}/a {{"kind":"ConfigMap","metadata":{{"name":"a"}}}}',
        "DELETE /api/v1/namespaces/n?gracePeriodSeconds=0 ",
        "GET /api/v1/namespaces/n ",
        'PUT /api/v1/namespaces/n/finalize {"kind":"Namespace","metadata":{"name":"n"},"spec":{}}',
    ]


def test_a_script_that_is_read_is_as_it_was_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recordings, "ANSWERS", tmp_path)
    first, other = config_map(a="1", b="2"), config_map(a="3", b="2")
    requests = [
        Request("POST", MAPS, first, code=201, answer=first, is_first=True),
        Request("POST", MAPS, other, (["data", "a"], "3"), code=201, answer=other),
        Request("POST", MAPS, config_map(b="2"), (["data", "a"],), code=201, answer=config_map(b="2")),
        Request("POST", MAPS, {"data": 5}, (["data"], 5), code=400, answer={"code": 400}),
        Request("GET", MAPS, code=200, answer={"items": []}),
    ]
    write("made", list(compact(requests)))
    again = [msgspec.structs.replace(each, differs=None) for each in read("made")]
    requests[3] = msgspec.structs.replace(requests[3], body={**first, "data": 5})
    assert again == requests
