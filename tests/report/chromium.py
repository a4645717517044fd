"""Debian's Chromium, headless: the page as a browser lays it out."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium")

_MEASURE = """
<script>
addEventListener("load", () => {
  const d = document.documentElement, wide = [];
  for (const e of document.querySelectorAll("body *")) {
    if (e.closest(".scroll, .vh, .skip, svg") && !e.matches(".scroll")) continue;
    const box = e.getBoundingClientRect();
    if (box.right > d.clientWidth + 0.5 || box.left < -0.5) wide.push(e.tagName + "." + e.className + " " + Math.round(box.right));
  }
  for (const t of document.querySelectorAll(".plot text, .effect text, .ratio-axis text, .split text, .goal-line text")) {
    const box = t.getBoundingClientRect();
    if (box.right > d.clientWidth + 0.5 || box.left < -0.5) wide.push("text " + t.textContent);
  }
  const out = {width: innerWidth, client: d.clientWidth, scroll: d.scrollWidth, height: d.scrollHeight, wide: wide.slice(0, 10),
               loads: performance.getEntriesByType("resource").length,
               first: Math.max(...[...document.querySelectorAll(".verdict, .tiles, .trio, .changed")].map(e => e.getBoundingClientRect().bottom))};
  const pre = document.createElement("pre"); pre.id = "measured"; pre.textContent = JSON.stringify(out); document.body.append(pre);
});
</script>
"""


def _run(arguments: list[str]) -> str:
    assert CHROMIUM is not None
    with tempfile.TemporaryDirectory(prefix="rooftune-chromium-", ignore_cleanup_errors=True) as profile:
        command = [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
            "--disable-component-update", "--disable-sync", "--hide-scrollbars", f"--user-data-dir={profile}", *arguments,
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=True)
    return done.stdout


def measure(page: str, width: int, folder: Path, height: int = 900) -> dict[str, Any]:
    """Lay out ``page`` at ``width`` CSS pixels: its widths, and the elements that stick out.

    The window of a headless Chromium has a least width, so a phone is a frame of that width, whose measured text
    comes back through the outer page. The page's own policy forbids scripts; only here it is taken out.
    """
    inner = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page, count=1)
    inner = inner.replace("</body>", _MEASURE + "</body>")
    outer = (
        "<!doctype html><meta charset=utf-8><body style='margin:0'>"
        f"<iframe id=f style='border:0;width:{width}px;height:{height}px' srcdoc=\"{html.escape(inner)}\"></iframe>"
        "<script>addEventListener('load', () => setTimeout(() => {"
        "const p = document.createElement('pre'); p.id = 'out';"
        "p.textContent = document.getElementById('f').contentDocument.getElementById('measured').textContent;"
        "document.body.append(p); document.getElementById('f').remove(); }, 50))</script>"
    )
    file = folder / f"measure-{width}.html"
    file.write_text(outer, encoding="utf-8")
    dom = _run(
        [
            f"--window-size={max(width, 600)},{height}",
            "--virtual-time-budget=4000",
            "--dump-dom",
            file.as_uri(),
        ]
    )
    found = re.search(r'<pre id="out">(.*?)</pre>', dom, re.S)
    assert found, "the page did not report its layout"
    return dict(json.loads(html.unescape(found.group(1))))


def screenshot(
    page: str, width: int, height: int, target: Path, *, dark: bool = False, scale: float = 1
) -> Path:
    """A picture of the page in a window of that size; below 500, where the layout would stay at 500, through a frame."""
    source = target.with_suffix(".page.html")
    source.write_text(page, encoding="utf-8")
    shown = source
    if width < 500:
        shown = target.with_suffix(".frame.html")
        shown.write_text(
            "<!doctype html><meta charset=utf-8><body style='margin:0;background:#888'>"
            f"<iframe style='border:0;width:{width}px;height:{height}px' src='{source.name}'></iframe>",
            encoding="utf-8",
        )
    _run(
        [
            f"--window-size={width},{height}", f"--force-device-scale-factor={scale}", "--virtual-time-budget=4000",
            f"--blink-settings=preferredColorScheme={0 if dark else 1}", f"--screenshot={target}", shown.as_uri(),
        ]
    )  # fmt: skip
    source.unlink()
    if shown != source:
        shown.unlink()
    return target
