"""`python -m benchmarks.tables`: writes the tables of the pages from the figures of runs.

The figures are in benchmarks/results, and those of the demo's experiments in
model_zoo_demo/results.

In a page a table stands between two comments, `<!-- table: NAME -->` and `<!-- end of table -->`.
Its heading is the page's own, in the page's language. Its rows are made here, of numbers and of
what every language writes alike. With --check nothing is written: the exit code is 1 where a page
has other figures than its file.
"""

import argparse
import re
import sys
from pathlib import Path

from . import demo_rows, table_rows
from .table_rows import read

ROOT = Path(__file__).resolve().parents[1]
TABLES = table_rows.TABLES | demo_rows.TABLES
PAGES = ("README*.md", "docs/*.md", "model_zoo_demo/README.md")
PLACE = re.compile(
    r"(?m)^<!-- table: (?P<name>.*) -->\n\n(?P<head>\|.*\n\|[-| ]*\n)(?P<rows>(?:\|.*\n)*)\n"
    r"<!-- end of table -->$"
)


def rows_of(name, root=ROOT):
    """The rows of a table as Markdown."""
    table = TABLES[name]
    lines = table.lines(read(Path(root, table.file)))
    return "".join(re.sub(r"\|  (?=\|)", "| ", f"| {' | '.join(cells)} |\n") for cells in lines)


def filled(text, page, root=ROOT):
    """The text of a page with the rows of its tables; ValueError for a comment without a table."""

    def table(match):
        if match["name"] not in TABLES:
            raise ValueError(f"{page}: no table {match['name']!r}, only {', '.join(TABLES)}")
        rows = rows_of(match["name"], root)
        columns = match["head"].split("\n")[0].count("|")
        if any(row.count("|") != columns for row in rows.splitlines()):
            raise ValueError(f"{page}: table {match['name']!r} has other columns than its heading")
        begin, end = match.span("rows")
        whole, start = match[0], match.start()
        return whole[: begin - start] + rows + whole[end - start :]

    new, count = PLACE.subn(table, text)
    if not count == text.count("<!-- table: ") == text.count("<!-- end of table -->"):
        raise ValueError(f"{page}: a comment of a table without a heading, or without its end")
    return new


def pages(root=ROOT):
    """{path: (text, text with the rows of the files)} of every page that has tables."""
    found = {}
    for path in (path for pattern in PAGES for path in sorted(Path(root).glob(pattern))):
        text = path.read_text()
        if "<!-- table: " in text or "<!-- end of table -->" in text:
            found[path] = text, filled(text, path.relative_to(root), root)
    return found


def main(arguments=None, root=ROOT):
    """Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tables", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, name what differs")
    given = parser.parse_args(arguments)
    differ = {path: new for path, (text, new) in pages(root).items() if text != new}
    for path, new in differ.items():
        print(f"{path.relative_to(root)}: {'differs' if given.check else 'written'}")
        if not given.check:
            path.write_text(new)
    return int(given.check and bool(differ))


if __name__ == "__main__":
    sys.exit(main())
