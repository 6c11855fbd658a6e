"""`diff` against a real cloudcore."""

from pathlib import Path
from typing import Any

from modules.kubectl.diff import differences
from tests.modules.kubectl.cloud import Cloud
from tests.modules.kubectl.test_apply import config, write


def test_the_exit_status_tells_whether_something_would_change(cloud: Cloud, tmp_path: Path) -> None:
    file = write(tmp_path / "x.yaml", config())
    new = cloud.run("diff", "-f", file)
    assert (new.status, new.lines[:2]) == (
        1,
        ["--- live/v1.ConfigMap.default.colours", "+++ merged/v1.ConfigMap.default.colours"],
    )
    assert not [line for line in new.lines[3:] if not line.startswith("+")]
    assert not cloud.run("get", "cm").out
    cloud.run("apply", "-f", file)
    assert cloud.run("diff", "-f", file)[:2] == (0, "")
    write(tmp_path / "x.yaml", config(sky="grey"))
    changed = cloud.run("diff", "-f", file)
    assert changed.status == 1
    assert [line for line in changed.lines[2:] if line[0] in "+-"] == ["-  sky: blue", "+  sky: grey"]


def test_what_cannot_be_compared_is_more_than_one(cloud: Cloud, tmp_path: Path) -> None:
    assert cloud.run("diff").status == 2
    assert cloud.run("diff", "-f", str(tmp_path / "nope")).status == 2
    assert cloud.run("diff", "-f", write(tmp_path / "x.yaml", "")).status == 2


def _secret(**data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": data}


def test_values_of_secrets_are_hidden() -> None:
    lines = differences(_secret(a="AAAA", b="BBBB", d="DDDD"), _secret(a="AAAA", b="CCCC", c="CCCC"))
    assert [line for line in lines if "***" in line] == [
        "   a: '***'", "-  b: '*** (before)'", "-  d: '***'", "+  b: '*** (after)'", "+  c: '***'",
    ]  # fmt: skip
    assert "CCCC" not in "\n".join(differences(None, _secret(c="CCCC")))


def test_versions_and_managers_are_no_difference() -> None:
    def obj(version: str) -> dict[str, Any]:
        notes = {"kubectl.kubernetes.io/last-applied-configuration": version}
        return {"metadata": {"resourceVersion": version, "managedFields": [version], "annotations": notes}}

    assert differences(obj("1"), obj("2")) == []
