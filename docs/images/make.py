"""Pictures of a real report, for the README: ``python docs/images/make.py FOLDER``, a folder that `rooftune optimize` wrote.

Needs Debian's Chromium. Writes report-laptop.png, report-laptop-dark.png and report-phone.png beside this file.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests" / "report"))

from chromium import CHROMIUM, screenshot  # noqa: E402

from rooftune.report.html.page import render_html  # noqa: E402
from rooftune.report.result_json import load_result  # noqa: E402


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: python docs/images/make.py FOLDER")
    if CHROMIUM is None:
        sys.exit("Chromium is not installed (apt-get install chromium)")
    page = render_html(load_result(sys.argv[1]))
    for name, width, height, dark in (
        ("report-laptop", 1280, 960, False),
        ("report-laptop-dark", 1280, 960, True),
        ("report-phone", 390, 1000, False),
    ):
        print(screenshot(page, width, height, HERE / f"{name}.png", dark=dark))


if __name__ == "__main__":
    main()
