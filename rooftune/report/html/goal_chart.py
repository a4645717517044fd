"""A goal at a glance: before, after and the bound on one line."""

from __future__ import annotations

from markupsafe import Markup

from rooftune.report import labels, words
from rooftune.report.html.scale import Scale
from rooftune.report.html.svg import element, share


def goal_chart(
    metric: str, baseline: float | None, final: float | None, target: float | None, sign: str
) -> Markup | None:
    """None when neither value is known. The forbidden side of the bound is shaded."""
    values = [v for v in (baseline, final, target) if v is not None and words.known(v)]
    if not [v for v in (baseline, final) if v is not None and words.known(v)]:
        return None
    highest = max(values)
    is_share = highest <= 1 and metric in ("slo_attainment", "top1_agreement", "error_rate", "mfu", "mbu")
    scale = Scale(0.0, 1.0 if is_share else (highest * 1.08 or 1.0))
    pieces = [element("line", x1="0%", x2="100%", y1=14, y2=14, class_="track")]
    if target is not None and words.known(target):
        place = scale(target)
        shaded = (
            {"x": share(place), "width": share(1 - place)}
            if sign == "<="
            else {"x": "0%", "width": share(place)}
        )
        pieces.append(element("rect", y=8, height=12, class_="beyond", **shaded))
        pieces.append(element("line", x1=share(place), x2=share(place), y1=3, y2=25, class_="slo"))
    spoken = [labels.label(metric)]
    if baseline is not None and final is not None and words.known(baseline) and words.known(final):
        pieces.append(
            element("line", x1=share(scale(baseline)), x2=share(scale(final)), y1=14, y2=14, class_="move")
        )
    if baseline is not None and words.known(baseline):
        pieces.append(element("circle", cx=share(scale(baseline)), cy=14, r=5, class_="before"))
        spoken.append(f"before {labels.value(metric, baseline)}")
    if final is not None and words.known(final):
        pieces.append(element("circle", cx=share(scale(final)), cy=14, r=6, class_="after"))
        spoken.append(f"after {labels.value(metric, final)}")
    if target is not None and words.known(target):
        spoken.append(f"goal {sign} {labels.value(metric, target)}")
    return element(
        "svg", *pieces, role="img", aria_label=", ".join(spoken), width="100%", height=28, class_="goal-line"
    )
