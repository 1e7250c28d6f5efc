"""Pictures of the kernel's example: a line of blocks for the terminal, a drawing for the page."""

from pathlib import Path

import numpy as np

BLOCKS = " ▁▂▃▄▅▆▇█"
COLOURS = ("#4c78a8", "#f58518", "#54a24b")


def sparkline(shares: np.ndarray) -> str:
    return "".join(BLOCKS[round(float(min(max(s, 0.0), 1.0)) * (len(BLOCKS) - 1))] for s in shares)


def draw_svg(
    path: Path, jobs: list[tuple[int, float, float, float]], hosts: int, end: float
) -> None:
    """One bar per job, a band per host: light while it fetches its data, dark while it computes."""
    rows: list[list[float]] = [[] for _ in range(hosts)]  # when each row of a host is free
    placed = []
    for host, arrival, began, ended in sorted(jobs, key=lambda job: job[1]):
        free = [i for i, until in enumerate(rows[host]) if until <= arrival]
        row = free[0] if free else len(rows[host])
        if not free:
            rows[host].append(0.0)
        rows[host][row] = ended
        placed.append((host, row, arrival, began, ended))

    left, width, bar = 70.0, 640.0, 9.0
    tops = np.cumsum([10.0] + [len(band) * bar + 14.0 for band in rows])
    height = float(tops[-1]) + 24.0

    def x(t: float) -> float:
        return left + width * t / end

    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" '
        f'viewBox="0 0 {left + width + 20:.0f} {height:.0f}"'
        ' font-family="sans-serif" font-size="11" fill="#888">'
    ]
    for host in range(hosts):
        middle = tops[host] + len(rows[host]) * bar / 2 + 4
        parts.append(f'<text x="8" y="{middle:.1f}">host {host}</text>')
    for host, row, arrival, began, ended in placed:
        y = tops[host] + row * bar
        colour = COLOURS[host % len(COLOURS)]
        for since, until, opacity in ((arrival, began, 0.35), (began, ended, 1.0)):
            parts.append(
                f'<rect x="{x(since):.1f}" y="{y:.1f}" width="{x(until) - x(since):.1f}" '
                f'height="{bar - 2:.1f}" rx="2" fill="{colour}" fill-opacity="{opacity}"/>'
            )
    for t in range(0, int(end) + 1, 50):
        parts.append(f'<text x="{x(t):.1f}" y="{height - 8:.1f}" text-anchor="middle">{t} s</text>')
    parts.append("</svg>\n")
    temporary = path.with_suffix(".tmp")
    temporary.write_text("\n".join(parts), encoding="utf-8")
    temporary.replace(path)
