"""The report as one self-contained HTML file."""

from rooftune.report.html.page import REPORT_FILE, render_html, write_html

__all__ = ["REPORT_FILE", "render_html", "write_html"]
