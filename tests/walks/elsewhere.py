"""What no walk has, with the reason, or the tests that have it: `test_walks` holds that nothing else is left out."""

from collections.abc import Mapping
from typing import Final

INSTALLING: Final = frozenset(
    {"cloudcore run", "edgecore run", "cloudcore get", "cloudcore apply", "edgecore uninstall", "edgecore join",
     "cloudcore token", "cloudcore kubeconfig"}
)  # fmt: skip
"""Commands by which an installation is made and removed: those of TLS and of a cluster in some rows only."""
LOOKING: Final = frozenset(
    {"cloudcore nodes", "cloudcore describe", "cloudcore doctor", "cloudcore metrics", "cloudcore why",
     "cloudcore page", "edgecore doctor", "edgecore metrics", "edgecore get", "edgecore why",
     "edgecore page", "edgecore version"}
)  # fmt: skip
"""Commands that are the screens of each row."""

COMMANDS: Final[Mapping[str, str]] = {
    "cloudcore attach": "it wants a terminal: tests/end_to_end/test_streams_from_the_cloud.py",
    "cloudcore completion": "a script for a shell: tests/modules/processes/common/test_completion.py",
    "cloudcore edit": "it opens an editor: tests/modules/kubectl",
    "cloudcore help": "it names no object",
    "cloudcore restore": "the cloud is off then: tests/end_to_end/test_backup.py",
    "edgecore attach": "it wants a terminal: tests/end_to_end/test_looking_in.py",
    "edgecore completion": "a script for a shell: tests/modules/processes/common/test_completion.py",
    "edgecore help": "it names no object",
    "edgecore leave": "the node is no node then: tests/end_to_end/test_join.py",
    "edgecore release": "it wants a pod that is held for an upgrade: tests/end_to_end/test_hold.py",
    "edgecore replay": "it compares recordings: tests/replay, make lives",
    "edgecore reset": "it wants a node that is off: tests/end_to_end/test_oci.py",
    "edgecore restart": "it wants systemd: tests/end_to_end/test_upgrade_systemd.py; rows restart nodes themselves",
    "edgecore restore": "the node is off then: tests/end_to_end/test_backup.py",
    "edgecore rollback": "it wants an installation with two versions: tests/end_to_end/test_upgrade.py",
    "edgecore runtime": "it runs without a node: tests/cri_contract",
    "edgecore simulate": "it has nodes of its own: make simulate",
}
"""By command."""

GROUPS: Final[Mapping[str, str]] = {
    "certificates": "the level tls",
    "the Kubernetes API on a port, for kubectl": "the walks streams and kubernetes-api",
    "logs of and commands in containers of nodes (`kubectl logs`, `exec`, `attach`)": "--tunnel-listen of each row",
    "users of an identity provider at the secure port, by OpenID Connect": "it wants a provider: tests/modules/cloud",
    "a log of who asked what of the Kubernetes API, as JSON lines of audit.k8s.io/v1": "no screen has it",
    "a cluster in place of the embedded API server": "the level cluster",
    "several cloudcores, which know of each other by Leases": "make chaos has several",
}
"""By the title of a group of options of `cloudcore run`, where it is."""

PAGES: Final[Mapping[str, str]] = {
    "add-a-module": "for programmers: tests/documentation/test_add_a_module.py",
    "architecture": "for programmers",
    "beehive": "for programmers",
    "compare": "it compares with others",
    "conformance": "a table of tests",
    "from-kubeedge": "it wants KubeEdge: tests/end_to_end/test_from_kubeedge.py",
    "in-a-cluster": "the level cluster",
    "mappers": "it wants a mapper's program: tests/end_to_end/test_mappers.py",
    "page": "a screen of each row",
    "protocol": "for programmers",
    "routes": "it wants an application that is called: tests/end_to_end/test_routes.py",
    "testing": "for programmers",
}
"""By page of docs."""
