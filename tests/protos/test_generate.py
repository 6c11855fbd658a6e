"""The command that generates the stubs, and its errors."""

from pathlib import Path

import pytest

from protos import generate


def _tree(root: Path, **files: str) -> Path:
    for name, content in files.items():
        path = root / "protos" / f"{name}_pb2.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


def test_the_checked_in_stubs_agree_with_the_proto_files() -> None:
    assert generate.main(["--check"]) == 0


def test_check_names_the_stub_that_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A changed .proto file without regenerated stubs fails the check, which does not change the stubs."""
    proto = tmp_path / "protos" / "one" / "api.proto"
    proto.parent.mkdir(parents=True)
    proto.write_text('syntax = "proto3"; package one; message A { string b = 1; }')
    (tmp_path / "setup.cfg").write_text((generate.ROOT / "setup.cfg").read_text())
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    assert generate.main([]) == 0
    assert generate.main(["--check"]) == 0

    before = (proto.parent / "api_pb2.py").read_text()
    proto.write_text(proto.read_text().replace("string b", "string c"))
    assert generate.main(["--check"]) == 1
    assert "protos/one/api_pb2.py" in capfd.readouterr().err
    assert (proto.parent / "api_pb2.py").read_text() == before


def test_a_proto_file_that_does_not_compile_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    proto = tmp_path / "protos" / "api.proto"
    proto.parent.mkdir(parents=True)
    proto.write_text("nonsense")
    (tmp_path / "setup.cfg").write_text((generate.ROOT / "setup.cfg").read_text())
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    assert generate.main([]) == 1
    assert "protos/api.proto" in capfd.readouterr().err


def test_other_versions_of_the_tools_are_refused_with_the_right_ones() -> None:
    complaints = generate.version_complaints({"grpcio-tools": "1.0.0", "mypy-protobuf": "5.0.0"}, {
        "grpcio-tools": "1.1.0", "mypy-protobuf": None,
    })  # fmt: skip
    assert complaints == [
        "grpcio-tools is 1.1.0, the stubs are made with 1.0.0: pip install grpcio-tools==1.0.0",
        "mypy-protobuf is not installed, the stubs are made with 5.0.0: pip install mypy-protobuf==5.0.0",
    ]


def test_the_pinned_versions_raise_no_complaint() -> None:
    assert generate.version_complaints({"grpcio-tools": "1.0.0"}, {"grpcio-tools": "1.0.0"}) == []


def test_a_missing_pin_in_setup_cfg_is_an_error_with_its_place() -> None:
    with pytest.raises(generate.GenerateError, match="grpcio-tools"):
        generate.pinned_versions("[options.extras_require]\ndev =\n  grpcio-tools>=1\n  mypy-protobuf==5\n")


def test_stubs_that_are_missing_left_over_or_different_are_all_named(tmp_path: Path) -> None:
    made = _tree(tmp_path / "made", same="1", different="1", missing="1")
    checked_in = _tree(tmp_path / "checked_in", same="1", different="2", left_over="1")
    assert generate.stub_differences(made, checked_in) == [
        "protos/different_pb2.py",
        "protos/left_over_pb2.py",
        "protos/missing_pb2.py",
    ]
