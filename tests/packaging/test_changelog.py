"""CHANGELOG.md tells of the version that the package has; it stands there and in CITATION.cff."""

import datetime
import re
import subprocess

import mindspore_nsa

from .conftest import ROOT

TEXT = (ROOT / "CHANGELOG.md").read_text()
KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_versions():
    headings = re.findall(r"^## (.*)$", TEXT, re.MULTILINE)
    unreleased = headings[0] == "[Unreleased]"
    if unreleased:
        del headings[0]
    found = [re.fullmatch(r"\[(\d+)\.(\d+)\.(\d+)\] - (\S+)", heading) for heading in headings]
    versions = [tuple(map(int, match.groups()[:3])) for match in found]
    here = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)(\.dev0)?", mindspore_nsa.__version__)
    number = tuple(map(int, here.groups()[:3]))
    # An unreleased version has a number of its own, the next one.
    assert (number > versions[0] and here[4]) if unreleased else number == versions[0]
    assert versions == sorted(set(versions), reverse=True)
    dates = [datetime.date.fromisoformat(match[4]) for match in found]
    assert dates == sorted(dates, reverse=True)


def test_kinds_of_changes():
    for part in TEXT.split("\n## ")[1:]:
        kinds = re.findall(r"^### (.*)$", part, re.MULTILINE)
        assert kinds and len(kinds) == len(set(kinds)) and set(kinds) <= KINDS


def test_links():
    for link in re.findall(r"\]\(([^):]+)\)", TEXT):
        assert (ROOT / link).exists(), link


def test_places_of_the_version():
    command = ["git", "grep", "-lwF", mindspore_nsa.__version__, "--"]
    # Packages of others have versions, too.
    kinds = (
        "*.py",
        "*.toml",
        "*.cff",
        "*.cmake",
        "CMakeLists.txt",
        "Makefile",
        "README*.md",
        "docs",
        "twin/docs",
        # Measurements are of the version that they name, also when that has gone on.
        ":!docs/measurements.md",
        ":!docs/figures",
    )
    done = subprocess.run([*command, *kinds], cwd=ROOT, capture_output=True, text=True)
    # Whoever cites the package reads CITATION.cff alone; the twin is a package of its own, and that
    # of the same version is what mindspore_nsa asks for.
    assert done.stdout.split() == [
        *(["CITATION.cff"] if "dev" not in mindspore_nsa.__version__ else []),
        *("mindspore_nsa/_version.py", "twin/ascendc_twin/_version.py"),
    ], done.stderr


def test_the_citation_is_of_this_version():
    text = (ROOT / "CITATION.cff").read_text()
    version, date = re.search(r"^## \[(\S+)\] - (\S+)$", TEXT, re.MULTILINE).groups()
    assert f"\nversion: {version}\n" in text and f"\ndate-released: {date}\n" in text
