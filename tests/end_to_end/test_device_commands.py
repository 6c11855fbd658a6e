"""`edgecore devices set|watch` and `edgecore trace explain device`, as processes."""

from pathlib import Path

from msgspec.structs import replace

from metamanager.rows import row_of
from metamanager.store import open_store
from modules.edge.devicetwin.state import Device, Twin, encode
from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.config.writing import render
from tests.end_to_end.processes import Process, wait_until
from tests.support.own_node import alone

EDGECORE = "modules.processes.edgecore"


def _node_with_a_device(root: Path) -> None:
    root.mkdir()
    config = alone(EdgeCoreConfig.below(root))
    edged = config.modules.edged
    kubelet = replace(edged.tailored_kubelet_config, read_only_port=0)
    edged = replace(edged, tailored_kubelet_config=kubelet, allow_unisolated_root=True)
    (root / "edgecore.yaml").write_text(render(replace(config, modules=replace(config.modules, edged=edged))))
    store = open_store(str(root / "edgecore.db"))
    device = Device("default/thermo", "thermo", twins={"threshold": Twin(type="int")})
    store.put(row_of("default/devicetwin/thermo", encode(device), 0))
    store.commit()
    store.close()


def test_a_value_is_set_while_somebody_watches(tmp_path: Path) -> None:
    """The watch ends with edgecore, and says so."""
    root = tmp_path / "node"
    _node_with_a_device(root)
    where = ["--root", str(root)]
    edge = Process(EDGECORE, ["run", *where], tmp_path / "edge.log")
    watch: Process | None = None
    try:
        wait_until(lambda: (root / "edged" / "edged.sock").exists() or not edge.runs, "the owner's socket is there")
        watch = Process(EDGECORE, ["devices", "watch", "default/thermo", "-o", "json", *where], tmp_path / "watch.log")
        watching = watch
        wait_until(lambda: "watching" in watching.text() or not watching.runs, "the watch has begun")
        assert _run(tmp_path, ["devices", "set", "default/thermo", "threshold=35", *where])[0] == ExitCode.OK
        wait_until(lambda: '"value":"35"' in watching.text() or not watching.runs, "the change is watched")
        status, text = _run(tmp_path, ["trace", "explain", "device", "default/thermo", *where])
        assert status == ExitCode.OK and "threshold, desired 35 by devices set: nobody can be told" in text
        assert "modules.eventBus.enable" in text
        edge.kill()
        assert watch.wait() == ExitCode.REFUSED
        assert "edgecore" in watch.text()
    finally:
        edge.kill()
        if watch is not None:
            watch.kill()


def _run(directory: Path, words: list[str]) -> tuple[int, str]:
    log = directory / f"{'-'.join(words[:2])}.log"
    process = Process(EDGECORE, words, log)
    return process.wait(), process.text()
