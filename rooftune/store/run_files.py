"""A run as a folder: `run.json` and `records.jsonl.gz`. Written whole or not at all.

The folder is filled under a temporary name beside its place, synced, and renamed. A killed writer leaves only a
temporary folder that no reader takes for a run. `run.json` carries the digest and the number of the records.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import shutil
import uuid
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rooftune.errors import EnvironmentProblem, WrongInput
from rooftune.store.encode import record_from_json, record_to_json, run_from_json, run_to_json
from rooftune.store.records import RequestRecord
from rooftune.store.run import Run

FORMAT = "rooftune-run"
VERSION = 1
_RUN = "run.json"
_RECORDS = "records.jsonl.gz"


def save_run(run: Run, folder: str | Path) -> Path:
    """Write a run; a run that is already there is replaced in one step. Returns the folder.

    Raises WrongInput when the place holds something else, EnvironmentProblem when it cannot be written.
    """
    place = Path(folder)
    if place.exists() and not (place.is_dir() and ((place / _RUN).exists() or not any(place.iterdir()))):
        raise WrongInput(f"{place} is there already and is not a run; name another folder")
    temporary = place.parent / f".{place.name}.{uuid.uuid4().hex[:8]}.partial"
    try:
        temporary.mkdir(parents=True)
        records = _records_bytes(run.records)
        _write(temporary / _RECORDS, records)
        head = {
            "format": FORMAT,
            "version": VERSION,
            "records": {
                "file": _RECORDS,
                "count": len(run.records),
                "sha256": hashlib.sha256(records).hexdigest(),
            },
            "run": run_to_json(run),
        }
        _write(temporary / _RUN, json.dumps(head, allow_nan=False, default=_plain).encode())
        _sync_folder(temporary)
        _put_in_place(temporary, place)
    except OSError as problem:
        shutil.rmtree(temporary, ignore_errors=True)
        raise EnvironmentProblem(f"{place} cannot be written: {problem.strerror or problem}") from problem
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return place


def load_run(path: str | Path) -> Run:
    """Read a run folder (or its `run.json`). Raises WrongInput with one line for anything that is not a whole run."""
    place = Path(path)
    folder = place.parent if place.name == _RUN else place
    if not folder.exists():
        raise WrongInput(f"{folder}: no such run")
    if not (folder / _RUN).is_file():
        raise WrongInput(f"{folder} is not a run (it has no {_RUN})")
    try:
        head = json.loads((folder / _RUN).read_bytes())
        if not isinstance(head, dict) or head.get("format") != FORMAT:
            raise WrongInput(f"{folder / _RUN} is not a Rooftune run")
        if head["version"] != VERSION:
            raise WrongInput(
                f"{folder / _RUN} has format version {head['version']}, this Rooftune reads {VERSION}"
            )
        packed = (folder / head["records"]["file"]).read_bytes()
        if hashlib.sha256(packed).hexdigest() != head["records"]["sha256"]:
            raise WrongInput(f"{folder}: the records are damaged (their digest differs); measure again")
        records = tuple(record_from_json(json.loads(line)) for line in gzip.decompress(packed).splitlines())
        if len(records) != head["records"]["count"]:
            raise WrongInput(f"{folder}: {len(records)} of {head['records']['count']} records are there")
        return run_from_json(head["run"], records)
    except FileNotFoundError as problem:
        raise WrongInput(f"{folder}: {Path(str(problem.filename)).name} is missing") from None
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        zlib.error,
        EOFError,
    ) as problem:
        raise WrongInput(f"{folder}: damaged or not a run ({type(problem).__name__}: {problem})") from None


def _records_bytes(records: Sequence[RequestRecord]) -> bytes:
    """Gzip of one JSON line a record; the same records give the same bytes."""
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=5, mtime=0) as stream:
        for record in records:
            stream.write(json.dumps(record_to_json(record), separators=(",", ":")).encode() + b"\n")
    return buffer.getvalue()


def _plain(value: Any) -> Any:
    """NumPy scalars and paths, which measurements may hold."""
    if hasattr(value, "item"):
        return value.item()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    raise TypeError(f"{type(value).__name__} does not belong in a run")


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def _sync_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _put_in_place(temporary: Path, place: Path) -> None:
    """Rename onto the place. A run that was there is moved aside first and removed last."""
    aside: Path | None = None
    if place.exists():
        aside = place.parent / f".{place.name}.{uuid.uuid4().hex[:8]}.old"
        place.rename(aside)
    try:
        temporary.rename(place)
    except OSError:
        if aside is not None:
            aside.rename(place)
        raise
    _sync_folder(place.parent)
    if aside is not None:
        shutil.rmtree(aside, ignore_errors=True)
