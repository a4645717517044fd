from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from rooftune.errors import EnvironmentProblem
from rooftune.quality.over_http import compare_generated, generate


@pytest.fixture
def server() -> Iterator[tuple[str, dict[str, Any]]]:
    """Answers five tokens with logprobs; ``state`` may change a token or leave the logprobs out."""
    state: dict[str, Any] = {"other": False, "logprobs": True}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            assert asked["temperature"] == 0.0 and self.path == "/v1/chat/completions"
            tokens = ["a", "b", "x" if state["other"] else "c", "d", "e"]
            content = [
                {
                    "token": t,
                    "logprob": -0.2,
                    "top_logprobs": [{"token": t, "logprob": -0.2}, {"token": "z", "logprob": -2.0}],
                }
                for t in tokens
            ]
            choice = {"logprobs": {"content": content} if state["logprobs"] else None}
            body = json.dumps({"choices": [choice]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listener.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listener.server_address[1]}", state
    listener.shutdown()
    listener.server_close()


def test_equal_servers_agree_and_a_changed_token_is_seen(server: tuple[str, dict[str, Any]]) -> None:
    url, state = server
    base = generate(url, "m", prompts=("one", "two", "three"), concurrency=3)
    same = compare_generated(base, generate(url, "m", prompts=("one", "two", "three")))
    assert same.identical == 3 and same.agreement.value == 1.0 and same.kl_lower_bound is not None
    state["other"] = True
    changed = compare_generated(base, generate(url, "m", prompts=("one", "two", "three")))
    assert changed.identical == 0 and changed.match_length_mean == 2.0
    assert changed.agreement.value == pytest.approx(2 / 3) and len(changed.margins) == 3


def test_a_server_without_logprobs_or_gone_is_one_line(server: tuple[str, dict[str, Any]]) -> None:
    url, state = server
    state["logprobs"] = False
    with pytest.raises(EnvironmentProblem, match="no logprobs"):
        generate(url, "m", prompts=("one",))
    with pytest.raises(EnvironmentProblem, match="cannot be asked"):
        generate("http://127.0.0.1:9", "m", prompts=("one",))
