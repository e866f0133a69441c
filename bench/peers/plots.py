"""Bars with their spread, as SVG that is readable on light and on dark."""

from html import escape

WIDTH, NAMES, ROW, BAR, TOP = 860, 270, 30, 16, 34
ROOM_FOR_FIGURES = 190

STYLE = """
    text { font: 13px system-ui, sans-serif; fill: #24292f; }
    .unit { fill: #57606a; font-size: 12px; }
    .own { fill: #0969da; }
    .other { fill: #afb8c1; }
    .spread { stroke: #24292f; stroke-width: 1.5; }
    @media (prefers-color-scheme: dark) {
        text { fill: #e6edf3; }
        .unit { fill: #8d96a0; }
        .own { fill: #4493f8; }
        .other { fill: #57606a; }
        .spread { stroke: #e6edf3; }
    }
"""


def bars(contest, found) -> str:
    """One bar for each peer, as long as its median, with a line from its least to its most."""
    measured = [line for line in found if line.figures]
    most = max((figure for line in measured for figure in line.figures), default=1.0)
    length = (WIDTH - NAMES - ROOM_FOR_FIGURES) / most
    height = TOP + ROW * len(found) + 8
    better = "more is better" if contest.measure.higher_is_better else "less is better"
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"'
        f' aria-label="{escape(contest.title)}">',
        f"<style>{STYLE}</style>",
        f'<text class="unit" x="{NAMES}" y="20">{escape(contest.measure.unit)}, {better}</text>',
    ]
    for index, line in enumerate(found):
        middle = TOP + ROW * index + ROW / 2
        drawn.append(f'<text x="{NAMES - 10}" y="{middle + 4:g}" text-anchor="end">{escape(line.peer)}</text>')
        if not line.figures:
            drawn.append(f'<text class="unit" x="{NAMES}" y="{middle + 4:g}">failed</text>')
            continue
        kind = "own" if line.peer == "redrive" else "other"
        end = NAMES + line.median * length
        drawn.append(
            f'<rect class="{kind}" x="{NAMES}" y="{middle - BAR / 2:g}" width="{max(line.median * length, 1):.1f}"'
            f' height="{BAR}" rx="2"/>'
        )
        low, high = (NAMES + figure * length for figure in (min(line.figures), max(line.figures)))
        drawn.append(
            f'<path class="spread" fill="none" d="M{low:.1f} {middle - 4:g}v8M{low:.1f} {middle:g}H{high:.1f}'
            f'M{high:.1f} {middle - 4:g}v8"/>'
        )
        shown = f"{line.median:,.{contest.measure.decimals}f}".replace(",", " ")
        times = "" if line.peer == "redrive" or line.ratio is None else f"  (Redrive: {line.ratio:.2f} ×)"
        if contest.held and line.ratio is not None:
            times = f"  ({line.ratio:.2f} of its rate without)"
        drawn.append(f'<text x="{max(end, high) + 8:.1f}" y="{middle + 4:g}">{shown}{times}</text>')
    return "\n".join([*drawn, "</svg>", ""])
