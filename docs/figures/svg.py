"""Parts of the pictures in this folder, and curves on logarithmic or even axes, as SVG text.

Every picture has a background of its own, so it is readable on dark pages too.
"""

import math
import textwrap

INK, FAINT, PAPER = "#1f2933", "#dfe4ea", "#ffffff"
FONT = "Helvetica, Arial, sans-serif"


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


def width_of(words, size):
    """The most that a line of text takes: a browser without Helvetica has a wider font."""
    return 0.6 * size * len(words)


class Axis:
    """Places of numbers between `begin` and `end`, for numbers from `low` to `high`."""

    def __init__(self, low, high, begin, end, logarithmic):
        self.scale = math.log if logarithmic else float
        self.low, self.high = self.scale(low), self.scale(high)
        self.begin, self.end = begin, end

    def place(self, value):
        """Where a number is."""
        share = (self.scale(value) - self.low) / (self.high - self.low)
        return self.begin + share * (self.end - self.begin)


def curves(title, x_label, x_ticks, y_label, y_ticks, series, logarithmic=True, note=""):
    """A picture of curves.

    Args:
        title (str): Above the picture.
        x_label, y_label (str): What the axes are.
        x_ticks, y_ticks (list): (number, how it is written); the first and the last are the ends
            of the axis.
        series (list): (name, color, dashes or "", points); a point is (x, y).
        logarithmic (bool): Both axes. Default: ``True``.
        note (str): Below, in as many lines as it needs. Default: none.
    """
    small = 11
    notes = textwrap.wrap(note, int(540 / width_of("x", small)))
    more = 15 * max(0, len(notes) - 1)
    width, height, left, right, top, bottom = 560, 400 + more, 86, 26, 44, 66 + more
    across = Axis(x_ticks[0][0], x_ticks[-1][0], left, width - right, logarithmic)
    up = Axis(y_ticks[0][0], y_ticks[-1][0], height - bottom, top, logarithmic)
    parts = [text(left, 26, title, 15, weight="bold")]
    for value, words in x_ticks:
        x = across.place(value)
        parts.append(line(x, top, x, height - bottom, FAINT, 1))
        parts.append(text(x, height - bottom + 18, words, 12, anchor="middle"))
    for value, words in y_ticks:
        y = up.place(value)
        parts.append(line(left, y, width - right, y, FAINT, 1))
        parts.append(text(left - 8, y + 4, words, 12, anchor="end"))
    parts.append(
        text((left + width - right) / 2, height - bottom + 38, x_label, 13, anchor="middle")
    )
    parts.append(
        f'<text transform="translate(18 {(top + height - bottom) / 2:.1f}) rotate(-90)" '
        f'font-size="13" fill="{INK}" text-anchor="middle">{y_label}</text>'
    )
    for place, (name, color, dashes, points) in enumerate(series):
        at = [(across.place(x), up.place(y)) for x, y in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2.5" '
            f'stroke-linejoin="round" stroke-dasharray="{dashes}"/>'
        )
        if len(at) < 20:
            parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.2" fill="{color}"/>' for x, y in at]
        y = top + 18 + 19 * place
        parts.append(
            f'<line x1="{left + 12}" y1="{y - 4}" x2="{left + 44}" y2="{y - 4}" stroke="{color}" '
            f'stroke-width="2.5" stroke-dasharray="{dashes}"/>'
        )
        parts.append(text(left + 52, y, name, 12.5))
    for place, words in enumerate(notes):
        y = height - bottom + 58 + 15 * place
        parts.append(text(width / 2, y, words, small, "#5b6770", "middle"))
    return page(width, height, title, parts)
