"""`top` against an API server whose nodes say what they use, and against a real cloudcore without tunnels."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import pytest

from modules.cli.parser import VerbParser
from modules.cli.rest import RestClient
from modules.kubectl.cli import VERBS, add_verbs
from modules.kubectl.session import run
from tests.modules.cloud.apiserver.endpoints.metrics_site import Site, measured
from tests.modules.kubectl.cloud import Cloud, Done, node, pod
from tests.modules.kubectl.fixed_server import found_kubectl

ALIKE: Final = """\
nodes
node n2
no -l a=b
nodes --sort-by=memory
nodes --sort-by cpu --no-headers
nodes --show-capacity
pods
pod web
po -A
pods -l app=db
pods --field-selector=spec.nodeName=n1
pods --containers --sort-by=cpu
pods --sum
pods -A --sum --containers
pods --no-headers
pods --sort-by=memory
pods -n nothing
pods -A -l no=one
pod nothing
node n3
""".splitlines()


class Top(NamedTuple):
    """The verb, and the server that it asks."""

    site: Site
    port: int
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *words: str) -> Done:
        """Run `cloudcore top WORDS` to its end."""
        self.capsys.readouterr()
        parser = VerbParser(prog="cloudcore")
        connect = lambda _: RestClient(("127.0.0.1", self.port))  # noqa: E731 - a thunk for the verb
        add_verbs(parser.add_subparsers(), "cloudcore", connect, VERBS, words=["top"])
        status = run(parser.parse_args(["top", *words]))
        shown = self.capsys.readouterr()
        return Done(status, shown.out, shown.err)


@pytest.fixture
def top(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Top]:
    """Of three nodes with two pods, the first with two measured containers; the third node does not answer."""
    site = Site(monkeypatch)
    site.nodes.answers["n1"]["pods"][0]["containers"][1] = measured("side", 300_000_001, 1 << 20)
    site.nodes.answers["n2"]["node"]["memory"]["workingSetBytes"] = 3 << 29
    label = {"metadata": {"labels": {"a": "b"}}}
    site.ask("PATCH", "/api/v1/nodes/n2", label, "application/merge-patch+json")
    with site.on_a_port() as port:
        yield Top(site, port, capsys)


def test_nodes(top: Top) -> None:
    """With shares of what is allocatable; a node that does not answer is named."""
    assert top("nodes").out == (
        "NAME   CPU(cores)   CPU(%)      MEMORY(bytes)   MEMORY(%)\n"
        "n1     500m         25%         1024Mi          50%\n"
        "n2     1m           0%          1536Mi          75%\n"
        "n3     <unknown>    <unknown>   <unknown>       <unknown>\n"
    )
    assert top("node", "n2", "--show-capacity", "--no-headers").rows == [["n2", "1m", "0%", "1536Mi", "18%"]]


def test_pods(top: Top) -> None:
    """Each the sum of its containers, thousandths of a core rounded up, with all together in a last row."""
    assert top("pods", "-A", "--sum").out == (
        "NAMESPACE   NAME   CPU(cores)   MEMORY(bytes)\n"
        "default     db     1m           3Mi\n"
        "default     web    551m         4Mi\n"
        "                   ________     ________\n"
        "                   551m         7Mi\n"
    )
    assert top("pod", "web", "--containers", "--sort-by=cpu").rows[1:] == [
        ["web", "side", "301m", "1Mi"],
        ["web", "main", "250m", "3Mi"],
    ]
    assert [row[0] for row in top("pods", "--sort-by=cpu", "--no-headers").rows] == ["web", "db"]
    assert top("pods", "-n", "other") == (0, "", "No resources found in other namespace.\n")


@pytest.mark.extended
def test_the_real_kubectl_shows_the_same(top: Top) -> None:
    """Words, and what is wrong; only the spaces of a sum without titles are others."""
    different = []
    with found_kubectl(top.port) as kubectl:
        for line in ALIKE:
            ours = top(*line.split())
            theirs = kubectl.run("top", *line.split(), status=ours.status)
            mine = ours.err if ours.status else ours.out
            if [each.split() for each in mine.splitlines()] != [each.split() for each in theirs.splitlines()]:
                different.append((line, ours, theirs))
    assert different == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "`cloudcore top nodes` or `cloudcore top pods` is wanted"),
        (("deploy",), "`cloudcore top pods` is wanted"),
        (("pods", "web", "db"), "one name at most"),
        (("pods", "web", "-l", "a=b"), "only one of NAME or selector can be provided"),
        (("pods", "web", "-A"), "by name across all namespaces"),
        (("pods", "--sort-by=disk"), "--sort-by accepts only cpu or memory"),
        (("pods", "--show-capacity"), "--show-capacity is of `top nodes` only"),
        (("nodes", "--all-namespaces"), "--all-namespaces is of `top pods` only"),
        (("pods", "-l", "a in"), "BadRequest"),
    ],
)
def test_refusals_and_their_reasons(top: Top, words: tuple[str, ...], said: str) -> None:
    """In one line."""
    done = top(*words)
    assert (done.status, done.out, said in done.err, len(done.err.splitlines())) == (1, "", True, 1)


def test_without_tunnels_the_error_has_the_remedy(cloud: Cloud) -> None:
    """But without pods there is nothing to ask for."""
    assert cloud.run("top", "pods") == (0, "", "No resources found in default namespace.\n")
    cloud.make(node(), pod())
    for words in (("pods",), ("pod", "web"), ("node",)):
        done = cloud.run("top", *words)
        assert (done.status, done.out) == (1, "")
        assert "start `cloudcore run` with --tunnel-listen" in done.err


def test_missing_measurements_have_a_reason(top: Top) -> None:
    """Pods that do not run, and such whose nodes do not answer."""
    top.site.nodes.answers = {}
    assert top("pods").err == "error: metrics not available yet: none of the pods runs\n"
    running = {"status": {"phase": "Running"}}
    top.site.ask("PATCH", "/api/v1/namespaces/default/pods/web/status", running, "application/merge-patch+json")
    done = top("pods", "-A")
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith("error: Metrics not available for pod default/web, age: ")
    assert "modules.edgeStream" in done.err
    assert "modules.edgeStream" in top("nodes").err
