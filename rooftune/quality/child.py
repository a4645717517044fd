"""The process that holds both models while they are compared. One request as a JSON line in, JSON lines out.

Run as ``python -m rooftune.quality.child``. It ends when its standard input closes, so it never outlives its parent.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any

from rooftune.errors import RooftuneError, WrongInput
from rooftune.progress import Silent
from rooftune.quality.evaluate import measure


class _Told(Silent):
    def advance(self, share: float) -> None:
        _tell({"advance": share})


def _tell(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(1)


def main() -> int:
    request = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        _tell({"result": measure(request, _Told())})
    except WrongInput as problem:
        _tell({"wrong_input": str(problem)})
    except RooftuneError as problem:
        _tell({"problem": str(problem)})
    sys.stdout.flush()
    # The watching thread blocks on standard input; leave without waiting for it.
    os._exit(0)


if __name__ == "__main__":
    main()
