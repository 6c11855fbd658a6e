"""Reading files: KubeEdge's whole, wrong ones with all their errors, odd ones with warnings."""

from pathlib import Path

import pytest

from modules.processes.edgecore.config import (
    ConfigError,
    EdgeCoreConfig,
    load,
    loads,
)
from modules.processes.edgecore.config.value_kinds import Text

KUBEEDGE_DEFAULT = Path(__file__).with_name("kubeedge_default.yaml")
HUB = "modules.edgeHub"
KUBELET = "modules.edged.tailoredKubeletConfig"


def text_with(path: str, value: str) -> str:
    """A file that sets one key, at the dotted path, to a piece of YAML."""
    *sections, name = path.split(".")
    lines = [f"{'  ' * depth}{section}:" for depth, section in enumerate(sections)]
    return "\n".join([*lines, f"{'  ' * len(sections)}{name}: {value}"])


def problems_of(text: str) -> list[str]:
    """The problems of an unusable text, as `line: path: text`."""
    with pytest.raises(ConfigError) as caught:
        loads(text)
    return [f"{problem.line}: {problem.path}: {problem.text}" for problem in caught.value.problems]


def test_kubeedges_own_file_is_taken_whole() -> None:
    """What `edgecore --defaultconfig` of KubeEdge prints gives no warning; its values arrive."""
    loaded = load(KUBEEDGE_DEFAULT)
    config = loaded.config
    assert loaded.warnings == ()
    assert loaded.without_effect == ()
    assert config.modules.edge_hub.http_server == "https://192.0.2.2:10002"
    assert config.websocket_url == "wss://192.0.2.2:10000/e632aba927ea4ac2b575ec1603d56f10/vm/events"
    assert config.modules.edged.tailored_kubelet_config.read_only_port == 10350
    assert config.modules.edged.tailored_kubelet_config.node_status_report_frequency == 300.0
    assert config.image_endpoint == "unix:///run/containerd/containerd.sock"


def test_a_default_that_is_written_is_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole file has few values of its own, and the patterns of the others would be compiled at each start."""
    project, server = "e632aba927ea4ac2b575ec1603d56f10", "https://cloud:1"
    checked: list[object] = []

    def read(_: Text, value: object) -> str:
        checked.append(value)
        return str(value)

    monkeypatch.setattr(Text, "read", read)
    loads(f"{text_with(f'{HUB}.projectID', project)}\n    httpServer: {server}")
    assert server in checked
    assert project not in checked


def test_the_number_of_a_switch_is_not_its_default() -> None:
    assert problems_of(text_with(f"{HUB}.quic.enable", "0"))


def test_our_defaults_are_kubeedges_but_for_the_argued_ones() -> None:
    """Everything KubeEdge prints that we leave different by default is in this list."""
    ours, theirs = EdgeCoreConfig.default(), load(KUBEEDGE_DEFAULT).config
    hub, kubelet = ours.modules.edge_hub, ours.modules.edged.tailored_kubelet_config
    assert hub.websocket.server == "127.0.0.1:10000"
    assert hub.http_server == "https://127.0.0.1:10002"
    assert kubelet.read_only_port == 10255
    assert kubelet.image_service_endpoint == ""
    rewritten = KUBEEDGE_DEFAULT.read_text(encoding="utf-8")
    for theirs_text, ours_text in [
        ("server: 192.0.2.2:10000", "server: 127.0.0.1:10000"),
        ("https://192.0.2.2:10002", "https://127.0.0.1:10002"),
        ("readOnlyPort: 10350", "readOnlyPort: 10255"),
        ("nodeStatusMaxImages: 0", "nodeStatusMaxImages: 50"),
        ("imageServiceEndpoint: unix:///run/containerd/containerd.sock", 'imageServiceEndpoint: ""'),
        ("nodeStatusReportFrequency: 5m0s", "nodeStatusReportFrequency: 1h0m0s"),
        ("reportEvent: false", "reportEvent: true"),
        ("readDeadline: 15", "readDeadline: 10"),
        ("writeDeadline: 15", "writeDeadline: 10"),
        ("readDeadline: 10\n    server: 127.0.0.1:10004", "readDeadline: 15\n    server: 127.0.0.1:10004"),
        ("server.key\n    writeDeadline: 10", "server.key\n    writeDeadline: 15"),
        ("eventBus:\n    enable: true", "eventBus:\n    enable: false"),
        ("mqttQOS: 0", "mqttQOS: 1"),
        ("taskManager:\n    enable: false", "taskManager:\n    enable: true"),
        ("mqttSessionQueueSize: 100", "mqttSessionQueueSize: 10000"),
        ("hostnameOverride: vm", f"hostnameOverride: {ours.node_name}"),
    ]:
        assert theirs_text in rewritten
        rewritten = rewritten.replace(theirs_text, ours_text)
    assert loads(rewritten).config == ours != theirs


@pytest.mark.parametrize(
    "text", ["", "~", "{}", "# nothing", "modules:", "modules: {edged: ~, edgeHub: {heartbeat: null}}"]
)
def test_keys_left_out_or_set_to_null_have_their_defaults(text: str) -> None:
    """As with Go's decoder, null is the same as a missing key, for sections too."""
    assert loads(text).config == EdgeCoreConfig.default()


@pytest.mark.parametrize(
    ("path", "value", "want"),
    [
        ("apiVersion", "v1", 'got "v1", want "edgecore.config.kubeedge.io/v1alpha2"'),
        ("kind", "Pod", 'got "Pod", want "EdgeCore"'),
        ("modules", "3", "got 3, want a mapping"),
        (HUB, "[1]", "got a list, want a mapping"),
        (f"{HUB}.heartbeat", "abc", 'got "abc", want an integer of seconds, 1 to 3600'),
        (f"{HUB}.heartbeat", "0", "got 0, want an integer of seconds, 1 to 3600"),
        (f"{HUB}.heartbeat", "3601", "got 3601, want an integer of seconds, 1 to 3600"),
        (f"{HUB}.heartbeat", "true", "got true, want an integer of seconds, 1 to 3600"),
        (f"{HUB}.heartbeat", "1.5", "got 1.5, want an integer of seconds, 1 to 3600"),
        (f"{HUB}.enable", '"true"', 'got "true", want true or false'),
        (f"{HUB}.enable", "1", "got 1, want true or false"),
        (f"{HUB}.projectID", "12", "got 12, want letters, digits, hyphens, underscores and dots"),
        (f"{HUB}.projectID", "a/b", 'got "a/b", want letters, digits, hyphens, underscores and dots'),
        (f"{HUB}.maxFrameBytes", "1Ki", 'got "1Ki", want a size in bytes such as 16Mi, 64Ki to 1Gi'),
        (f"{HUB}.maxFrameBytes", "true", "got true, want a size in bytes such as 16Mi, 64Ki to 1Gi"),
        (f"{HUB}.quic.enable", "true", "got true, want false"),
        (f"{HUB}.httpServer", "http://c:10002", 'got "http://c:10002", want https, because the websocket has TLS'),
        (f"{HUB}.websocket.enable", "false", "got false, want true"),
        (
            f"{HUB}.websocket.server",
            "http://a:1",
            'got "http://a:1", want host:port, or ws://host:port for a connection without TLS',
        ),
        (
            f"{HUB}.websocket.server",
            "a:65536",
            'got "a:65536", want host:port, or ws://host:port for a connection without TLS',
        ),
        (
            f"{HUB}.websocket.server",
            "cloud..example:1",
            'got "cloud..example:1", want host:port, or ws://host:port for a connection without TLS',
        ),
        (
            f"{HUB}.websocket.backupServers",
            "['ws://b:1']",
            "some servers have TLS and others not",
        ),
        (
            f"{HUB}.websocket.backupServers",
            "b:1",
            'got "b:1", want a list of at most 16, each host:port, or ws://host:port for a connection without TLS',
        ),
        (f"{HUB}.tlsCaFile", "ca.crt", 'got "ca.crt", want an absolute path'),
        ("database.dataSource", "edge.db", "got a value that is not shown, want an absolute path, or a database URL"),
        ("database.driverName", "mysql", 'got "mysql", want "sqlite3"'),
        (
            "modules.edged.hostnameOverride",
            "My_Node",
            'got "My_Node", want a node name (lower case letters, digits, hyphens, dots), or empty',
        ),
        ("modules.edged.workers", "65", "got 65, want an integer, 1 to 64"),
        (f"{KUBELET}.syncFrequency", "60", "got 60, want a duration such as 1m0s, 1s to 1h0m0s"),
        (f"{KUBELET}.syncFrequency", "1ms", 'got "1ms", want a duration such as 1m0s, 1s to 1h0m0s'),
        (f"{KUBELET}.address", "localhost", 'got "localhost", want an IP address'),
        (f"{KUBELET}.clusterDNS", "1.2.3.4", 'got "1.2.3.4", want a list of at most 3, each an IP address'),
        (
            f"{KUBELET}.containerRuntimeEndpoint",
            "tcp://x:1",
            'got "tcp://x:1", want unix:///path/of/socket, embedded://oci, embedded://docker or embedded://',
        ),
        (
            f"{KUBELET}.imageServiceEndpoint",
            "embedded://",
            "got embedded://, but containerRuntimeEndpoint names another runtime",
        ),
    ],
)
def test_wrong_values_are_errors_with_path_value_and_the_allowed_ones(path: str, value: str, want: str) -> None:
    """One wrong value gives one problem, at its own line."""
    text = text_with(path, value)
    assert problems_of(text) == [f"{len(text.splitlines())}: {path}: {want}"]


def test_all_errors_of_a_file_come_together() -> None:
    """A person repairs a file in one go: duplicates, wrong types, wrong values, unknown keys, in the file's order."""
    text = "\n".join(
        [
            "kind: Edge",
            "modules:",
            "  edgeHub:",
            "    heartbeat: abc",
            "    heartbeat: 5",
            "    token: [secret]",
            "  edged:",
            "    nodeLabels: {a: 1}",
            "    taint: x",
        ]
    )
    with pytest.raises(ConfigError) as caught:
        loads(text, "edge.yaml")
    assert str(caught.value).splitlines() == [
        'edge.yaml:1: kind: got "Edge", want "EdgeCore"',
        "edge.yaml:5: modules.edgeHub.heartbeat: given twice, first in line 4 (remove one of them)",
        "edge.yaml:6: modules.edgeHub.token: got a value that is not shown, want text",
        "edge.yaml:8: modules.edged.nodeLabels: got a mapping, want a mapping from label names to label values"
        ' (at most 63 letters, digits, hyphens, underscores, dots) ("a" is 1, put it in quotes)',
    ]
    assert [warning.path for warning in caught.value.warnings] == ["modules.edged.taint"]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("foo", "unknown key, ignored"),
        ("modules.edged.tailoredKubeletConfig.foo", "unknown key, ignored"),
        ("modules.edged.tailoredKubeletConfig.logging.options.foo", "unknown key, ignored"),
        ("modules.eventBus.eventBusTLS.foo", "unknown key, ignored"),
        ("modules.edgehub", "read as edgeHub"),
        ("modules.eventbus.mqttMode", "read as eventBus"),
    ],
)
def test_unknown_keys_and_odd_spellings_are_named_in_a_warning(path: str, text: str) -> None:
    """With the full path. Go's decoder takes keys whatever their case, so we do too, and say it."""
    [warning] = loads(text_with(path, "~")).warnings
    assert path.startswith(warning.path)
    assert warning.text == text


def test_a_misspelt_key_gets_a_suggestion() -> None:
    """The nearest known key of the same section is named."""
    [warning] = loads(text_with(f"{HUB}.hartbeat", "3")).warnings
    assert warning.hint == "did you mean heartbeat?"


def test_a_key_in_other_case_counts() -> None:
    """Its value is used; beside the right spelling it is an error, as nobody can say which one counts."""
    assert loads(text_with(f"{HUB}.HeartBeat", "3")).config.modules.edge_hub.heartbeat == 3
    assert problems_of("kind: EdgeCore\nKind: EdgeCore\n") == ["2: Kind: the same key as another one here: kind"]


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("evictionSoft", "{memory.available: 1Gi}", "memory.available has no grace period"),
        ("evictionHard", '{memory.available: "0"}', "use the threshold: memory.available<0 (it must be more than 0)"),
        ("evictionHard", "{memory.free: 1Gi}", "want a mapping from one of memory.available"),
        ("evictionSoftGracePeriod", "{memory.available: 90}", "want a mapping"),
        ("imageGCLowThresholdPercent", "90", "want less than imageGCHighThresholdPercent, which is 85"),
        ("shutdownGracePeriod", "500ms", "want 0s or at least 1s"),
        ("shutdownGracePeriodCriticalPods", "10s", "more than shutdownGracePeriod"),
        ("shutdownGracePeriodByPodPriority", "[{priority: 1}]", "each with priority and shutdownGracePeriodSeconds"),
        ("shutdownGracePeriodByPodPriority", "{a: 2}", "want a list"),
        ("podCIDR", "10.1.2.3/16", 'got "10.1.2.3/16", want a range such as 10.86.0.0/16'),
        ("podCIDR", "[10.1.0.0/16]", "want a range such as 10.86.0.0/16"),
        ("registerWithTaints", "{a: 2}", "want a list of at most 64 taints"),
        ("registerWithTaints", "[{key: edge}]", "want a list of at most 64 taints"),
        ("registerWithTaints", "[{key: edge, effect: NoRun}]", "want a list of at most 64 taints"),
        ("registerWithTaints", "[{key: a b, effect: NoExecute}]", "want a list of at most 64 taints"),
        ("registerWithTaints", "[{key: a, effect: NoExecute, since: 1}]", "want a list of at most 64 taints"),
        (
            "registerWithTaints",
            "[{key: a, effect: NoExecute}, {key: a, value: b, effect: NoExecute}]",
            "want a list of at most 64 taints",
        ),
        (
            "shutdownGracePeriodByPodPriority",
            "[{priority: 1, shutdownGracePeriodSeconds: 1}, {priority: 1, shutdownGracePeriodSeconds: 2}]",
            "want a list",
        ),
    ],
)
def test_what_keeps_the_node_in_order_is_judged_as_the_kubelet_does(key: str, value: str, words: str) -> None:
    (problem,) = problems_of(text_with(f"{KUBELET}.{key}", value))
    assert f"{KUBELET}.{key}: " in problem
    assert words in problem


def test_keys_without_effect_are_named_when_somebody_chose_their_value() -> None:
    """KubeEdge's defaults and empty values say nothing; anything else will not do what its writer wants."""
    text = """
modules:
  streamRuleEndpoint: {enable: true}
  deviceTwin: {enable: true}
  eventBus: {mqttPubClientID: me, mqttQOS: 1}
  edgeHub: {rotateCertificates: true, token: abc, quic: {readDeadline: 15}}
  edged: {registerNodeNamespace: edge, tailoredKubeletConfig: {cpuManagerPolicy: static, podPidsLimit: -1}}
"""
    paths = [remark.path for remark in loads(text).without_effect]
    assert paths == [
        "modules.streamRuleEndpoint.enable",
        "modules.eventBus.mqttPubClientID",
        "modules.edged.registerNodeNamespace",
        f"{KUBELET}.cpuManagerPolicy",
    ]


def test_secrets_do_not_appear_in_reports() -> None:
    """Neither in an error nor in the settings' own representation."""
    with pytest.raises(ConfigError) as caught:
        loads(text_with(f"{HUB}.token", '"hunter2\\x01"'))
    assert "hunter2" not in str(caught.value)
    text = text_with("database.dataSource", "postgresql://me:hunter2@host/name")
    config = loads(text).config
    assert "hunter2" not in repr(config)
    assert str(config.database_url) == "postgresql://me:hunter2@host/name"


def test_yaml_errors_have_line_and_column(tmp_path: Path) -> None:
    """In the form compilers use."""
    file = tmp_path / "edge.yaml"
    file.write_text("kind: EdgeCore\nmodules: [\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=rf"^{file}:3:1: not YAML: "):
        load(file)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "there is no such file"),
        (b"\xff\xfe", "is not UTF-8 text, at byte 0"),
        (b"#" * (1024 * 1024 + 1), "larger than 1024 KiB"),
    ],
    ids=["missing", "not text", "huge"],
)
def test_files_that_cannot_be_read(tmp_path: Path, content: bytes | None, words: str) -> None:
    """Each has its own words, and the file's name."""
    file = tmp_path / "edge.yaml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=words) as caught:
        load(file)
    assert str(caught.value).startswith(f"{file}: ")


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    """The message says which option takes one."""
    with pytest.raises(ConfigError, match="is a directory, and a file is wanted"):
        load(tmp_path)


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    """Editors of another system write one."""
    file = tmp_path / "edge.yaml"
    file.write_bytes(b"\xef\xbb\xbfmodules: {dbTest: {enable: false}}\n")
    assert load(file).config == EdgeCoreConfig.default()


@pytest.mark.parametrize(
    "content",
    ["", "\n", "# edgecore\n", "---\n", "null\n", "{}\n", "kind: EdgeCore\n", "database: {aliasName: default}\n",
     "modules:\n", "Modules: {}\n", "modules:\n  edged:\n"],
)  # fmt: skip
def test_a_file_that_is_empty_or_cut_off_is_refused(tmp_path: Path, content: str) -> None:
    """KubeEdge's defaults would make another node of it, with KubeEdge's directories."""
    file = tmp_path / "edge.yaml"
    file.write_text(content)
    with pytest.raises(ConfigError, match=r"modules: has no settings.*restore the file"):
        load(file)
