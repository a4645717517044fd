"""The index of what was measured: runs, trials, verdicts in SQLite (WAL), so that lists need no folder scan.

The folders stay the truth; the index can be built again from them.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rooftune.errors import EnvironmentProblem, WrongInput
from rooftune.store.run import Run

SCHEMA_VERSION = 1

_SCHEMA = """
CREATE TABLE runs (
    id TEXT PRIMARY KEY, label TEXT NOT NULL, started_at TEXT NOT NULL, model TEXT, url TEXT, path TEXT NOT NULL,
    schedule_hash TEXT NOT NULL, requests INTEGER NOT NULL, valid INTEGER NOT NULL, complete INTEGER NOT NULL,
    metrics TEXT NOT NULL
);
CREATE TABLE trials (
    id TEXT PRIMARY KEY, optimize_id TEXT NOT NULL, technique TEXT NOT NULL, stage TEXT NOT NULL,
    decision TEXT NOT NULL, body TEXT NOT NULL
);
CREATE TABLE verdicts (
    optimize_id TEXT PRIMARY KEY, created_at TEXT NOT NULL, verdict TEXT NOT NULL, path TEXT NOT NULL,
    body TEXT NOT NULL
);
"""


class Database:
    """One file, one connection. Every write is its own transaction."""

    def __init__(self, path: str | Path) -> None:
        place = Path(path)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(place, timeout=10.0, isolation_level=None)
            self._connection.row_factory = sqlite3.Row
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=NORMAL")
            self._prepare(place)
        except (sqlite3.OperationalError, OSError) as problem:
            raise EnvironmentProblem(f"{place}: the index cannot be opened ({problem})") from None
        except sqlite3.DatabaseError as problem:
            raise WrongInput(f"{place} is not a Rooftune index ({problem}); remove or rename it") from None

    def _prepare(self, place: Path) -> None:
        with self._transaction() as cursor:
            version = int(cursor.execute("PRAGMA user_version").fetchone()[0])
            if version == SCHEMA_VERSION:
                return
            if version > SCHEMA_VERSION:
                raise WrongInput(
                    f"{place} was written by a newer Rooftune (schema {version}, this one reads {SCHEMA_VERSION})"
                )
            for statement in _SCHEMA.split(";"):
                if statement.strip():
                    cursor.execute(statement)
            cursor.execute(f"PRAGMA user_version={SCHEMA_VERSION}")

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Cursor]:
        cursor = self._connection.cursor()
        cursor.execute("BEGIN IMMEDIATE")
        try:
            yield cursor
        except BaseException:
            cursor.execute("ROLLBACK")
            raise
        cursor.execute("COMMIT")

    def add_run(self, run: Run, path: str | Path) -> None:
        """Index a saved run (again, if it was there)."""
        metrics = json.dumps({metric.name: metric.value for metric in run.metrics})
        with self._transaction() as cursor:
            cursor.execute(
                "INSERT OR REPLACE INTO runs VALUES (?,?,?,?,?,?,?,?,?,?,?)",
                (
                    run.id,
                    run.label,
                    run.started_at,
                    run.target.get("model"),
                    run.target.get("url"),
                    str(path),
                    run.schedule_hash,
                    len(run.records),
                    int(run.valid),
                    int(run.complete),
                    metrics,
                ),
            )

    def add_trial(
        self, trial_id: str, optimize_id: str, technique: str, stage: str, decision: str, body: dict[str, Any]
    ) -> None:
        with self._transaction() as cursor:
            cursor.execute(
                "INSERT OR REPLACE INTO trials VALUES (?,?,?,?,?,?)",
                (trial_id, optimize_id, technique, stage, decision, json.dumps(body)),
            )

    def add_verdict(
        self, optimize_id: str, created_at: str, verdict: str, path: str | Path, body: dict[str, Any]
    ) -> None:
        with self._transaction() as cursor:
            cursor.execute(
                "INSERT OR REPLACE INTO verdicts VALUES (?,?,?,?,?)",
                (optimize_id, created_at, verdict, str(path), json.dumps(body)),
            )

    def runs(self) -> list[dict[str, Any]]:
        """Newest first."""
        rows = self._connection.execute("SELECT * FROM runs ORDER BY started_at DESC, id").fetchall()
        return [{**dict(row), "metrics": json.loads(row["metrics"])} for row in rows]

    def trials(self, optimize_id: str) -> list[dict[str, Any]]:
        rows = self._connection.execute(
            "SELECT * FROM trials WHERE optimize_id = ?", (optimize_id,)
        ).fetchall()
        return [{**dict(row), "body": json.loads(row["body"])} for row in rows]

    def verdicts(self) -> list[dict[str, Any]]:
        rows = self._connection.execute("SELECT * FROM verdicts ORDER BY created_at DESC").fetchall()
        return [{**dict(row), "body": json.loads(row["body"])} for row in rows]

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()
