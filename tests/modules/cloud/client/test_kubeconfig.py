"""Kubeconfig files, and the configuration of a pod in its cluster."""

from pathlib import Path

import pytest

from modules.cloud.client.kubeconfig.reading import MAX_BYTES, KubeconfigError, in_cluster, load

CONFIG = """\
apiVersion: v1
kind: Config
current-context: work
clusters:
- name: c
  cluster: {server: "https://a:6443", certificate-authority: ca.crt, tls-server-name: kubernetes}
users:
- name: u
  user:
    client-certificate: /etc/u.crt
    client-key-data: c2VjcmV0
    token: hidden
    tokenFile: token
    as: admin
    as-groups: [g]
    as-user-extra: {scopes: [view]}
    exec: {apiVersion: client.authentication.k8s.io/v1, command: ./login, args: null, interactiveMode: Never}
contexts:
- name: work
  context: {cluster: c, user: u, namespace: edge}
"""


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_a_context_has_its_cluster_and_user(tmp_path: Path) -> None:
    """Paths are relative to the file, data is decoded, and no text of a user shows a secret."""
    selected = load([_written(tmp_path / "config", CONFIG)]).select()
    assert (selected.cluster.server, selected.namespace) == ("https://a:6443", "edge")
    assert selected.cluster.certificate_authority == str(tmp_path / "ca.crt")
    assert selected.user.client_certificate == "/etc/u.crt"
    assert selected.user.client_key_data == b"secret"
    assert selected.user.token_file == str(tmp_path / "token")
    assert selected.user.exec is not None
    assert selected.user.exec.command == str(tmp_path / "login")
    assert (selected.user.as_user, selected.user.as_groups) == ("admin", ("g",))
    assert selected.user.as_user_extra == {"scopes": ("view",)}
    assert "hidden" not in repr(selected)


def test_the_first_file_decides(tmp_path: Path) -> None:
    """Of two files with one name the first wins, and the second adds what the first lacks."""
    other = CONFIG.replace("https://a", "https://b").replace("name: work", "name: home").replace(": work", ": home")
    merged = load([_written(tmp_path / "a", CONFIG), _written(tmp_path / "b", other)])
    assert merged.select().cluster.server == "https://a:6443"
    assert merged.select("home").cluster.server == "https://a:6443"
    assert merged.current == "work"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (CONFIG.replace("-context: work", "-context: play"), "no context is named 'play'; there are: work"),
        (CONFIG.replace("current-context: work", ""), "no current-context is set: name one of work"),
        (CONFIG.replace("cluster: c,", "cluster: d,"), "no cluster is named 'd'; there are: c"),
        (CONFIG.replace("c2VjcmV0", "hidden!"), "client-key-data"),
        (CONFIG.replace("kind: Config", "kind: Pod"), "not a Config"),
        ("a: [hidden", "not YAML"),
        ("[" * 200 + "]" * 200, "beyond the bounds"),
        ("#" * (MAX_BYTES + 1), "longer than"),
    ],
)
def test_errors_name_the_file_and_no_secret(tmp_path: Path, text: str, why: str) -> None:
    """An error names the file and what to do, and holds nothing secret."""
    path = _written(tmp_path / "config", text)
    with pytest.raises(KubeconfigError) as raised:
        load([path]).select()
    assert why in str(raised.value)
    assert str(path) in str(raised.value)
    assert "hidden" not in str(raised.value)


def test_null_is_an_absent_field_and_base64_may_have_line_breaks(tmp_path: Path) -> None:
    """As Go's decoder reads a file: `base64` of coreutils breaks its lines, and generators of files write nulls."""
    text = CONFIG.replace("token: hidden", "token: null").replace("namespace: edge", "namespace: null")
    text = text.replace("client-key-data: c2VjcmV0", "client-key-data: |\n      c2Vj\n      cmV0")
    selected = load([_written(tmp_path / "config", text)]).select()
    assert (selected.user.client_key_data, selected.user.token, selected.namespace) == (b"secret", "", "default")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """A file that was asked for and is missing is an error."""
    with pytest.raises(KubeconfigError, match="No such file"):
        load([tmp_path / "missing"])


def test_a_pod_knows_its_cluster(tmp_path: Path) -> None:
    """A pod uses its service account's files, with brackets around an IPv6 address."""
    for name in ("token", "ca.crt"):
        _written(tmp_path / name, "x")
    _written(tmp_path / "namespace", "edge\n")
    selected = in_cluster({"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}, tmp_path)
    assert (selected.cluster.server, selected.namespace) == ("https://[fd00::1]:443", "edge")
    assert selected.user.token_file == str(tmp_path / "token")


def test_outside_a_pod(tmp_path: Path) -> None:
    """Outside a pod the error says to name a kubeconfig."""
    with pytest.raises(KubeconfigError, match="name a kubeconfig"):
        in_cluster({}, tmp_path)
