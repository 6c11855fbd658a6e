"""`localhost` is taken wherever an address is."""

from pathlib import Path

from modules.processes.cloudcore.cli import command_line
from modules.processes.cloudcore.config import CloudCoreConfig
from modules.processes.cloudcore.flags import converted, settings_of
from tests.modules.processes.cloudcore.stubs import Stub


def test_a_cloud_listens_on_localhost_everywhere(tmp_path: Path) -> None:
    words = ["run", "--tls", "--tls-dir", str(tmp_path / "tls"), "--bind-address", "localhost", "--secure-port", "0"]
    for option in ("--listen", "--https-listen", "--metrics-bind-address", "--tunnel-listen"):
        words += [option, "localhost:0"]
    config = converted(settings_of(command_line(["run"])[0].parse_args(words), CloudCoreConfig), CloudCoreConfig)
    names = {"listen_address", "listen_port", "metrics_address", "metrics_port", "tls", "secure_port", "bind_address"}
    chosen = {name: getattr(config, name) for name in {*names, "cloud_stream"} & {*config.__struct_fields__}}
    with Stub(tmp_path, **chosen) as stub:
        hosts = [url.partition("://")[2].rpartition(":")[0] for url in stub.core.urls]
    assert {*hosts} - {"", "localhost"} == {"127.0.0.1"}, "the websocket's address is the one that was found"
    assert len(hosts) > 3
