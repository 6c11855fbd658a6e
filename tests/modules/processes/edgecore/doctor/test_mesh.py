"""What doctor says about edgemesh."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.doctor import mesh
from modules.processes.edgecore.doctor.checks import check_mesh
from modules.processes.edgecore.doctor.facts import MeshNeeds
from modules.processes.edgecore.doctor.mesh import needs


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (MeshNeeds(), ["all programs of edgemesh are installed"]),
        (MeshNeeds(missing=("nftables",)), ["not installed: nftables; a proxy carries"]),
        (MeshNeeds(missing=("nftables",), may_use_proxy=False), ["not installed: nftables; nothing carries"]),
        (MeshNeeds(may_change_rules=False), ["and no names"]),
        (MeshNeeds(may_change_rules=False, has_names=False), ["127.96.0.0/11"]),
        (MeshNeeds(beside="edgemesh0"), ["edgemesh-agent runs here"]),
        (MeshNeeds(has_store=False), ["metamanager, which is off"]),
    ],
)
def test_each_lack_is_named(given: MeshNeeds, words: list[str]) -> None:
    found = list(check_mesh(given))
    assert len(found) == len(words)
    assert all(word in str(each) for word, each in zip(words, found, strict=True))


def test_the_facts_of_a_machine(tmp_path: Path) -> None:
    """Case 24: the interface of KubeEdge's agent."""
    config = EdgeCoreConfig.below(tmp_path)
    options = replace(config.modules.edge_mesh, enable=True)
    config = replace(config, modules=replace(config.modules, edge_mesh=options))
    found = needs(config, tmp_path, str(tmp_path))
    assert (found.missing, found.beside, found.has_names) == (("nftables", "iproute2"), "", True)
    (tmp_path / "edgemesh0").mkdir()
    for program in ("nft", "ip"):
        (tmp_path / program).touch(0o755)
    found = needs(config, tmp_path, str(tmp_path))
    assert (found.missing, found.beside) == ((), "edgemesh0")


@pytest.mark.parametrize("isolates", [True, False])
def test_an_ordinary_user_has_rules_where_pods_are_isolated(
    isolates: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are in the network of the pods; a proxy would not be."""
    monkeypatch.setattr(mesh, "is_rootless", lambda _: isolates)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    found = needs(EdgeCoreConfig.below(tmp_path), tmp_path, str(tmp_path))
    assert (found.may_change_rules, found.may_use_proxy) == (isolates, not isolates)
