"""`delete`: what a node does not ask its cloud for."""

from typing import Any

import pytest

from modules.apimachinery.printing.fields import JsonObject
from modules.cli.errors import StatusError
from modules.cli.parser import VerbParser
from modules.kubectl import delete
from modules.kubectl.session import Session


class _Server:
    """A server with two pods, one of them static, that deletes what it is asked to."""

    def __init__(self) -> None:
        self.deleted: list[str] = []

    def get(self, path: str, _query: Any = ()) -> JsonObject:
        """Return the resources, or a pod."""
        if path in ("/api/v1", "/api", "/apis"):
            pods = {"name": "pods", "kind": "Pod", "singularName": "pod", "namespaced": True, "verbs": ["delete"]}
            return {"versions": ["v1"], "groups": [], "groupVersion": "v1", "resources": [pods]}
        name = path.rpartition("/")[2]
        if name == "none":
            raise StatusError(404, "NotFound", 'pods "none" not found')
        return {
            "metadata": {"name": name, "annotations": {"kubernetes.io/config.source": "file"} if name == "s" else {}}
        }

    def request(self, method: str, path: str, body: Any = None) -> JsonObject:
        """Delete a pod."""
        assert method == "DELETE"
        self.get(path)
        self.deleted.append(path.rpartition("/")[2])
        return {}


@pytest.mark.parametrize(("program", "deleted"), [("edgecore", ["web"]), ("cloudcore", ["s", "web"])])
def test_a_node_does_not_delete_its_static_pods(
    program: str, deleted: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The cloud would delete the mirror, which the node makes again."""
    parser = VerbParser(prog=program, intermixed=True)
    delete.add(parser)
    server = _Server()
    assert delete.run(Session(program, server), parser.parse_args(["pod", "s", "none", "web"])) == 1  # type: ignore[arg-type]
    assert server.deleted == deleted
    refused = capsys.readouterr().err
    assert 'pods "none" not found' in refused
    assert ('pod "s" is static: remove its file from staticPodPath' in refused) == (program == "edgecore")
