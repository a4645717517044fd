"""A server that is there already: found, observed, never changed."""

from __future__ import annotations

import http.server
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rooftune.errors import EnvironmentProblem, WrongInput
from rooftune.runtimes.http import checked_url
from rooftune.runtimes.url.metrics import read_metrics
from rooftune.runtimes.url.runtime import UrlRuntime
from tests.server.hosting import host

VLLM = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 2.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.5
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.7
# TYPE vllm:generation_tokens counter
vllm:generation_tokens_total{engine="0",model_name="m"} 100.0
vllm:generation_tokens_total{engine="1",model_name="m"} 11.0
# TYPE vllm:prefix_cache_hits counter
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 7.0
# TYPE vllm:request_success counter
vllm:request_success_total{finished_reason="stop",model_name="m"} 4.0
vllm:request_success_total{finished_reason="length",model_name="m"} 5.0
# TYPE vllm:iteration_tokens_total histogram
vllm:iteration_tokens_total_bucket{le="1.0",model_name="m"} 2.0
vllm:iteration_tokens_total_bucket{le="+Inf",model_name="m"} 9.0
vllm:iteration_tokens_total_sum{model_name="m"} 50.0
vllm:iteration_tokens_total_count{model_name="m"} 9.0
# TYPE process_cpu_seconds counter
process_cpu_seconds_total 3.0
"""


@contextmanager
def foreign(pages: dict[str, Any], key: str | None = None) -> Iterator[str]:
    """A server of others that answers GET with the given pages (JSON or text), and counts nothing else."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = pages.get(self.path)
            status = 404 if page is None else 200
            if key is not None and self.headers.get("authorization") != f"Bearer {key}":
                status, page = 401, {"error": "no"}
            raw = page.encode() if isinstance(page, str) else json.dumps(page).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def models(*names: str) -> dict[str, Any]:
    return {"object": "list", "data": [{"id": name} for name in names]}


def test_vllm_metrics_in_our_words() -> None:
    counters, gauges = read_metrics(VLLM)
    assert counters == {"generated_tokens": 111, "prefix_hit_tokens": 7, "finished": 9, "steps": 9}
    assert gauges == {"running": 5, "kv_used": pytest.approx(0.6)}


def test_a_foreign_server_is_observed() -> None:
    pages = {"/v1/models": models("m"), "/metrics": VLLM}
    with foreign(pages) as url:
        server = UrlRuntime("ignored", {"base_url": f"{url}/v1/"}).start({})
        assert (server.url, server.model, server.started_by_us) == (url, "m", False)
        before = server.observe()
        pages["/metrics"] = VLLM.replace(
            '_hits_total{engine="0",model_name="m"} 7.0', '_hits_total{a="b"} 27.0'
        )
        after = server.observe()
        (entry,) = server.ledger(before, after)
        assert (entry.switch, entry.active, entry.moved, entry.requested) == ("prefix_cache", True, 20, None)
        assert server.ledger(after, after)[0].active is None
        assert server.resolved() is None and server.steps(0) == () and server.reset_prefix_cache() is None
        server.stop()
        assert server.observe().counters


@pytest.mark.parametrize("page", [None, "<html>hello</html>", "a b c d\n"])
def test_without_metrics_nothing_is_known(page: str | None) -> None:
    pages = {"/v1/models": models("m")} | ({"/metrics": page} if page else {})
    with foreign(pages) as url:
        observed = UrlRuntime(None, {"base_url": url}).start({}).observe()
    assert observed.counters == {} and observed.gauges == {}


def test_which_model() -> None:
    with foreign({"/v1/models": models("one", "two")}) as url:
        assert UrlRuntime("two", {"base_url": url}).start({}).model == "two"
        assert UrlRuntime("x", {"base_url": url, "model": "one"}).start({}).model == "one"
        with pytest.raises(WrongInput, match="2 models"):
            UrlRuntime("x", {"base_url": url}).start({})
        with pytest.raises(WrongInput, match="did you mean 'one'"):
            UrlRuntime("x", {"base_url": url, "model": "onee"}).start({})
    with foreign({}) as url:
        assert UrlRuntime("x", {"base_url": url, "model": "named"}).start({}).model == "named"
        with pytest.raises(WrongInput, match="name one"):
            UrlRuntime("x", {"base_url": url}).start({})
    for page in ("hello", [], {"data": 3}):
        with (
            foreign({"/v1/models": page}) as url,
            pytest.raises(EnvironmentProblem, match="is this an LLM server"),
        ):
            UrlRuntime("x", {"base_url": url}).start({})


def test_keys_come_from_a_variable_and_stay_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    with foreign({"/v1/models": models("m")}, key="s3cret") as url:
        options = {"base_url": url, "api_key_env": "KEY_OF_TEST"}
        with pytest.raises(WrongInput, match="KEY_OF_TEST is not set"):
            UrlRuntime("m", options)
        monkeypatch.setenv("KEY_OF_TEST", "s3cret")
        runtime = UrlRuntime("m", options)
        assert runtime.start({}).model == "m" and "s3cret" not in repr(runtime._http)
        monkeypatch.setenv("KEY_OF_TEST", "wr0ng")
        with pytest.raises(EnvironmentProblem, match="refused the API key") as refused:
            UrlRuntime("m", options).start({})
        assert "wr0ng" not in str(refused.value)


def test_nobody_there_and_nothing_to_switch() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    runtime = UrlRuntime("m", {"base_url": f"http://127.0.0.1:{port}"})
    with pytest.raises(EnvironmentProblem, match=f"cannot reach http://127.0.0.1:{port}") as nobody:
        runtime.start({})
    assert nobody.value.exit_status == 4
    with pytest.raises(WrongInput, match="not configured by Rooftune"):
        runtime.start({"slots": 4})


@pytest.mark.parametrize(
    "url", ["localhost:8000", "ftp://a", "http://", "http://a:x", "http://u:p@a", "http://a?b"]
)
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(WrongInput):
        checked_url(url, "base_url")


def test_a_rooftune_server_at_a_url_tells_all(tiny_model: Path) -> None:
    with host(tiny_model) as hosted:
        server = UrlRuntime("x", {"base_url": hosted.url}).start({})
        before = server.observe()
        hosted.json("POST", "/v1/completions", {"prompt": "an", "max_tokens": 3, "ignore_eos": True})
        after = server.observe()
        assert after.counters["generated_tokens"] - before.counters["generated_tokens"] == 3
        assert server.steps(before.time_ns) and (server.resolved() or {})["slots"] == 16
        assert {entry.switch for entry in server.ledger(before, after)} > {"batching", "slots"}
        as_scraped, _ = read_metrics(hosted.request("GET", "/metrics")[2].decode())
        for name in ("generated_tokens", "prompt_tokens", "steps", "prefix_query_tokens"):
            assert as_scraped[name] == after.counters[name]
