"""Settings that are dangerous together are named; a file that demands what it cannot get is refused."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from modules.processes.common.doctor.check_result import Level
from modules.processes.common.loopback import is_loopback
from modules.processes.edgecore.config import ConfigError, loads
from modules.processes.edgecore.config.dangers import CHECKS
from modules.processes.edgecore.doctor.checks import check_configuration
from modules.processes.edgecore.doctor.facts import Configured

EMBEDDED = {"tailoredKubeletConfig": {"containerRuntimeEndpoint": "embedded://"}}
FAR = {"websocket": {"server": "cloud.example:10000"}}
PLAIN = {"websocket": {"server": "ws://10.0.0.1:10000"}}
EVERYWHERE = "0.0.0.0"  # noqa: S104 - never bound
HERE = {"websocket": {"server": "ws://127.0.0.1:10000"}}


def meta_server(**settings: Any) -> dict[str, Any]:
    return {"metaManager": {"metaServer": {"enable": True, **settings}}}


def kubelet(**settings: Any) -> dict[str, Any]:
    return {"edged": {"tailoredKubeletConfig": settings}}


@pytest.mark.parametrize(
    ("modules", "found"),
    [
        ({}, []),
        ({"edged": EMBEDDED, "edgeHub": HERE}, []),
        ({"edgeHub": FAR}, []),
        ({"edgeHub": PLAIN}, ["plain-websocket"]),
        ({"edgeHub": {"websocket": {**HERE["websocket"], "backupServers": ["ws://10.0.0.1:1"]}}}, ["plain-websocket"]),
        ({"edgeHub": {**PLAIN, "enable": False}}, []),
        ({"edged": EMBEDDED, "edgeHub": FAR}, ["process-runtime-with-cloud"]),
        ({"edged": EMBEDDED, "edgeHub": PLAIN}, ["plain-websocket", "process-runtime-with-cloud"]),
        ({"edged": {**EMBEDDED, "allowUnisolatedRoot": True}, "edgeHub": HERE}, ["unisolated-root"]),
        ({"edged": {**EMBEDDED, "allowUnisolatedRoot": True}}, []),
        (kubelet(address=EVERYWHERE), ["open-read-only-port"]),
        (kubelet(address="::"), ["open-read-only-port"]),
        (kubelet(address="::1"), []),
        (kubelet(address=EVERYWHERE, readOnlyPort=0), []),
        ({"edged": {"streamingOnReadOnlyPort": True}}, ["exec-on-read-only-port"]),
        (meta_server(), []),
        (meta_server(server="0.0.0.0:10550"), ["open-metaserver"]),
        (meta_server(serveSecrets=True), ["open-metaserver-secrets"]),
        (meta_server(server="10.0.0.2:1", serveSecrets=True), ["open-metaserver", "open-metaserver-secrets"]),
        (meta_server(enable=False, server="10.0.0.2:1", serveSecrets=True), []),
        (meta_server(tlsCertFile="/x", tlsPrivateKeyFile="/y"), ["metaserver-without-tls"] * 2),
        (meta_server(enable=False, tlsCertFile="/x"), []),
    ],
)  # fmt: skip
def test_dangerous_combinations_have_names(modules: dict[str, Any], found: list[str]) -> None:
    """And is a warning at the setting to change."""
    warnings = loads(msgspec.json.encode({"modules": modules}).decode()).warnings
    assert [warning.check for warning in warnings] == found
    assert all(warning.path.startswith("modules.") and warning.line for warning in warnings)
    assert set(found) <= CHECKS.keys()


@pytest.mark.parametrize("gate", ["requireAuthorization", "RequireAuthorization"])
@pytest.mark.parametrize("key", ["featureGates", "featuregates"])
def test_a_file_that_demands_authorization_is_not_served_without(key: str, gate: str) -> None:
    """An error while the metaserver would be open, a warning otherwise, nothing when it is not demanded."""
    demanded: dict[str, Any] = {key: {gate: True}}
    with pytest.raises(ConfigError, match=r"is demanded and cannot be had.*\[authorization-without-effect\]"):
        loads(msgspec.json.encode({**demanded, "modules": meta_server()}).decode())
    [*_, told] = loads(msgspec.json.encode(demanded).decode()).warnings
    assert (told.check, told.path) == ("authorization-without-effect", f"{key}.{gate}")
    off: dict[str, Any] = {"featureGates": {gate: False}, "modules": meta_server()}
    assert not loads(msgspec.json.encode(off).decode()).warnings


def test_doctor_shows_each_by_its_name() -> None:
    """As warnings, which are no failures; what `run` refuses to root is one."""
    loaded = loads(msgspec.json.encode({"modules": {"edgeHub": PLAIN}}).decode())
    told = tuple((each.check, each.render("x")) for each in loaded.warnings)
    verdicts = list(check_configuration(Configured(source="x", node="n", runs_container_runtime=False, warnings=told)))
    assert (verdicts[0].check, verdicts[0].level) == ("plain-websocket", Level.WARNING)
    configured = Configured(source="x", node="n", runs_container_runtime=True, unisolated_root=True)
    assert ("unisolated-root", Level.FAILED) in [(each.check, each.level) for each in check_configuration(configured)]


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("[::1]", True), ("localhost", True), ("LOCALHOST", True),
     (EVERYWHERE, False), ("::", False), ("localhost.example", False), ("10.0.0.1", False), ("", False)],
)  # fmt: skip
def test_what_only_this_machine_reaches(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def test_every_check_is_in_the_reference() -> None:
    """With what it finds."""
    text = (Path(__file__).parents[5] / "docs" / "configuration.md").read_text()
    named = re.findall(r"^\| `([a-z-]+)` \| .{20}", text, re.MULTILINE)
    assert set(CHECKS) <= set(named)
