"""The documentation site builds without a warning, and its links lead somewhere."""

import html.parser
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import mindspore_nsa

from .conftest import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Folder of the built site; a warning is an error."""
    folder = tmp_path_factory.mktemp("site")
    package = str(Path(mindspore_nsa.__file__).parents[1])
    command = ("-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "-c", "docs/site")
    done = subprocess.run(
        [sys.executable, *command, "-d", str(tmp_path_factory.mktemp("trees")), ".", str(folder)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": package},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    return folder


class Page(html.parser.HTMLParser):
    """Anchors of a page, what it links to, and its text."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.links, self.text = set(), [], []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name == "id":
                self.anchors.add(value)
            elif name in ("href", "src") and value and tag in ("a", "img", "link", "script"):
                self.links.append(value)

    def handle_data(self, data):
        self.text.append(data)


def test_links(site):
    pages = {path: Page(path) for path in site.rglob("*.html")}
    checked = 0
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or link in ("#", ""):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.exists(), f"{path.relative_to(site)}: {link}"
            if parts.fragment and target in pages:
                assert unquote(parts.fragment) in pages[target].anchors, f"{path.name}: {link}"
            checked += 1
    assert checked > 200


PAGES = ("README*.md", "docs/*.md", "model_zoo_demo/*.md", "twin/**/*.md", "benchmarks/**/*.md")


def headings(page):
    """The anchors that a reader of the repository finds on a page."""
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    found = (re.sub(r"[`*]", "", x).strip() for x in re.findall(r"^#+ (.*)", text, re.MULTILINE))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


def test_linked_headings_exist():
    """Pages are also read in the repository, whose anchors are not made by the site."""
    links = [
        (page, target, anchor)
        for pattern in PAGES
        for page in ROOT.glob(pattern)
        for target, anchor in re.findall(r"\]\(([^)#:\s]*)#([^)\s]+)\)", page.read_text())
        if target == "" or target.endswith(".md")
    ]
    assert len(links) > 80
    wrong = [
        (str(page), target, anchor)
        for page, target, anchor in links
        if anchor not in headings(page.parent / target if target else page)
    ]
    assert wrong == []


def test_linked_files_exist():
    """The site names files of the repository without holding them."""
    links = [
        (page, link)
        for pattern in PAGES
        for page in ROOT.glob(pattern)
        for link in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text())
    ]
    assert len(links) > 300
    assert [(str(page), link) for page, link in links if not (page.parent / link).exists()] == []


def test_every_page_is_there(site):
    """In both languages; every public function and class has its docstring on the site."""
    for page in [
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "twin" / "docs").glob("*.md"),
        ROOT / "README.zh-CN.md",
    ]:
        if page != ROOT / "docs" / "README.md":
            assert (site / page.relative_to(ROOT)).with_suffix(".html").exists(), page
    anchors = Page(site / "docs" / "site" / "api.html").anchors
    for name in set(mindspore_nsa.__all__) - {"__version__"}:
        found = {f"mindspore_nsa.{name}", f"mindspore_nsa.ops.{name}"} & anchors
        assert found, f"{name} has no entry"
    assert "mindspore_nsa.nn.NativeSparseAttention" in anchors
    assert (site / "searchindex.js").exists()
