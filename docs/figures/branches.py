"""Draws docs/figures/branches.svg: what one query of NSA reads. Run it again after a change.

It is a diagram, of boxes and lines at places of their own, and shows no figures; the curves beside
it are matplotlib's (benchmarks/figures.py).
"""

from pathlib import Path

INK, FAINT, PAPER = "#1f2933", "#dfe4ea", "#ffffff"
FONT = "Helvetica, Arial, sans-serif"
TOKENS, WINDOW, BLOCK = 48, 4, 8
CELL, LEFT, WIDTH = 14, 150, 1024
COLORS = {"compressed": "#3b6fb6", "selected": "#c8553d", "window": "#3f8f5b"}
SELECTED = (0, 2, 5)  # blocks that the compressed scores chose, the first and the last among them
LAST = 10  # tokens of the sliding window
ROWS = {
    "compressed": ("1  compressed", "every window of tokens as one"),
    "selected": ("2  selected", "the blocks with the best scores"),
    "window": ("3  window", "the last tokens"),
}


def rect(x, y, width, height, fill, stroke="none"):
    """A rectangle with round corners."""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="2" '
        f'fill="{fill}" stroke="{stroke}"/>'
    )


def text(x, y, words, size=14, fill=INK, anchor="start", weight="normal"):
    """A line of text; y is that of its base line."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{fill}" '
        f'text-anchor="{anchor}" font-weight="{weight}">{words}</text>'
    )


def line(x1, y1, x2, y2, color=INK, width=1.5):
    """A straight line."""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}" '
        f'stroke-width="{width}"/>'
    )


def page(width, height, title, parts):
    """The text of a file."""
    body = "\n".join([rect(0, 0, width, height, PAPER), *parts])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" '
        f'font-family="{FONT}" role="img">\n<title>{title}</title>\n{body}\n</svg>\n'
    )


def cells(branch, y):
    """The keys of a row: what the branch reads is colored."""
    parts = []
    if branch == "compressed":
        for begin in range(0, TOKENS, WINDOW):
            x = LEFT + begin * CELL
            parts.append(rect(x + 1, y, WINDOW * CELL - 2, CELL, COLORS[branch]))
        return parts
    for token in range(TOKENS):
        chosen = token // BLOCK in SELECTED if branch == "selected" else token >= TOKENS - LAST
        color = COLORS[branch] if chosen else FAINT
        parts.append(rect(LEFT + token * CELL + 1, y, CELL - 2, CELL, color))
    return parts


def drawing():
    """The elements of the picture."""
    end = LEFT + TOKENS * CELL
    parts = [text(LEFT, 26, "keys and values of the past", 13)]
    parts.append(text(end, 26, "the query’s token", 13, anchor="end"))
    middle = 130
    for i, (branch, (name, meaning)) in enumerate(ROWS.items()):
        y = 52 + 66 * i
        color = COLORS[branch]
        parts += [text(14, y + 12, name, 15, color, weight="bold"), *cells(branch, y)]
        parts.append(text(LEFT, y + 32, meaning, 12.5))
        parts.append(line(end + 6, y + 7, end + 60, y + 7, color))
        parts.append(text(end + 6, y + 1, f"× gate {i + 1}", 12))
        parts.append(line(end + 60, y + 7, end + 96, middle, color))
    parts.append(f'<circle cx="{end + 110}" cy="{middle}" r="14" fill="none" stroke="{INK}"/>')
    parts.append(text(end + 110, middle + 6, "+", 18, anchor="middle"))
    parts.append(text(end + 130, middle + 5, "output", 14))
    # The compressed branch's scores choose the blocks of the second.
    for block in SELECTED:
        x = LEFT + (block + 0.5) * BLOCK * CELL
        color = COLORS["selected"]
        parts.append(line(x, 88, x, 115, color))
        parts.append(f'<path d="M{x - 4} 109 L{x + 4} 109 L{x} 117 Z" fill="{color}"/>')
    return parts


if __name__ == "__main__":
    title = (
        "A query of Native Sparse Attention reads compressed tokens, selected blocks and a window"
    )
    picture = page(WIDTH, 250, title, drawing())
    Path(__file__).with_name("branches.svg").write_text(picture)
