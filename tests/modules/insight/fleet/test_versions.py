"""Which versions fit together."""

import pytest

from modules.insight.fleet.findings import skew_words
from modules.processes.common.version import KUBELET_VERSION, VERSION

NEWER = "newer than this cloudcore, 1.3.0"
OLDER = "more than 2 minor versions older than this cloudcore, 1.3.0"


@pytest.mark.parametrize(
    ("node", "own", "words"),
    [
        ("v1.32.10-edgecore-1.3.0", "1.3.0", ""),
        ("v1.32.10-edgecore-1.3.0.dev7+g1", "1.3.0", ""),
        ("v1.32.10-edgecore-1.2.9", "1.3.0", ""),
        ("v1.32.10-edgecore-1.1.9", "1.3.0", ""),
        ("v1.32.10-edgecore-1.0.9", "1.3.0", OLDER),
        ("v1.32.10-edgecore-0.9.0", "1.3.0", OLDER),
        ("v1.32.10-edgecore-1.4.0.dev0", "1.3.0", NEWER),
        ("v1.32.10-edgecore-2.0.0", "1.3.0", NEWER),
        ("v1.10.9-kubeedge-v1.1.0-beta.0", "1.3.0", ""),
        ("v1.34.1", "1.3.0", ""),
        ("", "1.3.0", ""),
        ("v1.32.10-edgecore-²0.1.0", "1.3.0", ""),
        ("v1.32.10-edgecore-1.4.0", "", ""),
        (KUBELET_VERSION, VERSION, ""),
        (KUBELET_VERSION, "0.1.0", "newer than this cloudcore, 0.1.0"),
    ],
)
def test_versions_that_fit(node: str, own: str, words: str) -> None:
    assert skew_words(node, own) == words
