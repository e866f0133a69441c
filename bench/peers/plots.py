"""Bars with their spread, and lines over time, as SVG that is readable on light and on dark."""

from html import escape

WIDTH, NAMES, ROW, BAR, TOP = 860, 270, 30, 16, 34
ROOM_FOR_FIGURES = 190

STYLE = """
    text { font: 13px system-ui, sans-serif; fill: #24292f; }
    .unit { fill: #57606a; font-size: 12px; }
    .own { fill: #0969da; }
    .other { fill: #afb8c1; }
    .spread { stroke: #24292f; stroke-width: 1.5; }
    .axis { stroke: #d0d7de; }
    .line { fill: none; stroke: #8c959f; stroke-width: 1.5; }
    .own-line { fill: none; stroke: #0969da; stroke-width: 2; }
    @media (prefers-color-scheme: dark) {
        text { fill: #e6edf3; }
        .unit { fill: #8d96a0; }
        .own { fill: #4493f8; }
        .other { fill: #57606a; }
        .spread { stroke: #e6edf3; }
        .axis { stroke: #30363d; }
        .line { stroke: #8d96a0; }
        .own-line { stroke: #4493f8; }
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
            times = f"  ({line.ratio:.2f} of {contest.kept_of})"
        drawn.append(f'<text x="{max(end, high) + 8:.1f}" y="{middle + 4:g}">{shown}{times}</text>')
    return "\n".join([*drawn, "</svg>", ""])


LEFT, HEIGHT, BOTTOM, POINTS = 80, 320, 30, 120


def lines(contest, series) -> str:
    """A line for each peer: what it did in each second, as means of equal parts of the time."""
    longest = max(len(by_second) for _, by_second in series)
    part = -(-longest // POINTS)
    means = [(peer, [sum(some) / len(some) for some in parts(by_second, part)]) for peer, by_second in series]
    most = max(mean for _, points in means for mean in points) or 1.0
    right, floor = WIDTH - NAMES, HEIGHT - BOTTOM
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
        f' aria-label="{escape(contest.title)}, over time">',
        f"<style>{STYLE}</style>",
        f'<text class="unit" x="{LEFT}" y="20">{escape(contest.measure.unit)} over time</text>',
    ]
    for share in (0.0, 0.5, 1.0):
        y = floor - share * (floor - TOP)
        shown = f"{most * share:,.0f}".replace(",", " ")
        drawn.append(f'<path class="axis" d="M{LEFT} {y:g}H{right}"/>')
        drawn.append(f'<text class="unit" x="{LEFT - 8}" y="{y + 4:g}" text-anchor="end">{shown}</text>')
    for second in (0, longest // 2, longest):
        x = LEFT + second / longest * (right - LEFT)
        drawn.append(f'<text class="unit" x="{x:.1f}" y="{HEIGHT - 10}" text-anchor="middle">{second} s</text>')
    lowest = HEIGHT
    for peer, points in sorted(means, key=lambda line: line[1][-1]):
        at = [
            (LEFT + (index * part + part / 2) / longest * (right - LEFT), floor - mean / most * (floor - TOP))
            for index, mean in enumerate(points)
        ]
        kind = "own-line" if peer == "redrive" else "line"
        drawn.append(f'<path class="{kind}" d="M' + "L".join(f"{x:.1f} {y:.1f}" for x, y in at) + '"/>')
        # Names of lines that end close to each other are moved apart.
        lowest = min(lowest - 16, at[-1][1] + 4)
        drawn.append(f'<text x="{right + 8}" y="{lowest:.1f}">{escape(peer)}</text>')
    return "\n".join([*drawn, "</svg>", ""])


def parts(values, size) -> list:
    """Parts of a list; a last second that was not a whole one says little."""
    whole = values[:-1] or values
    return [whole[start : start + size] for start in range(0, len(whole), size)]
