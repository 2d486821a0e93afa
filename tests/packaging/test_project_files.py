"""Workflows, issue forms and hooks are what their services read, and say what the project does."""

import os
import re
import subprocess
import sys
from importlib import metadata

import pytest
import yaml
from packaging.specifiers import SpecifierSet

from .conftest import ROOT

FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def schema_says(schema, path):
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows(path, tmp_path):
    code, said = schema_says("vendor.github-workflows", path)
    assert code == 0, said
    wrong = tmp_path / path.name
    wrong.write_text(path.read_text().replace("runs-on:", "runs_on:"))
    assert schema_says("vendor.github-workflows", wrong)[0] == 1


def test_the_matrix_is_what_is_supported():
    """And the scripts that a workflow calls are there and may be executed."""
    workflow = yaml.safe_load(WORKFLOWS[0].read_text())
    matrix = workflow["jobs"]["matrix"]["strategy"]["matrix"]
    classifiers = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())
    assert matrix["python"] == classifiers
    assert (matrix["mindspore"][0], matrix["mindspore"][-1]) == ("2.7.1", "2.10.0")
    steps = [
        step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step
    ]
    scripts = {word for step in steps for word in step.split() if word.startswith(".ci/")}
    assert scripts == {".ci/run", ".ci/smoke"}
    for script in scripts:
        assert os.access(ROOT / script, os.X_OK)
        assert subprocess.run(["bash", "-n", ROOT / script]).returncode == 0


@pytest.mark.parametrize(
    "schema, name",
    [
        ("readthedocs", ".readthedocs.yaml"),
        ("citation-file-format", "CITATION.cff"),
        ("github-issue-config", ".github/ISSUE_TEMPLATE/config.yml"),
        ("github-issue-forms", ".github/ISSUE_TEMPLATE/bug.yml"),
        ("github-issue-forms", ".github/ISSUE_TEMPLATE/feature.yml"),
    ],
)
def test_files_that_services_read(schema, name):
    code, said = schema_says(f"vendor.{schema}", ROOT / name)
    assert code == 0, said


def test_read_the_docs():
    text = (ROOT / ".readthedocs.yaml").read_text()
    assert (ROOT / yaml.safe_load(text)["sphinx"]["configuration"]).exists()


@pytest.mark.parametrize("path", [p for p in FORMS if p.name != "config.yml"], ids=lambda p: p.name)
def test_issue_forms(path):
    """The fields that GitHub needs, with ids of their own."""
    form = yaml.safe_load(path.read_text())
    assert set(form) == {"name", "description", "body"}
    assert len({field["id"] for field in form["body"]}) == len(form["body"])
    for field in form["body"]:
        assert field["type"] in ("textarea", "dropdown", "input") and field["attributes"]["label"]
        assert field["type"] != "dropdown" or field["attributes"]["options"]


def test_the_bug_form_asks_for_what_the_readme_asks_for():
    form = (ROOT / ".github" / "ISSUE_TEMPLATE" / "bug.yml").read_text()
    asked = (ROOT / "README.md").read_text().partition("Please report a bug")[2]
    for name in ("python -m mindspore_nsa", "mindspore_nsa.reference", "MINDSPORE_NSA_ISA=scalar"):
        assert name in asked and name in form


def test_hooks_have_the_pinned_versions():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    pinned = dict(re.findall(r'"([\w-]+)==([\d.]+)"', (ROOT / "pyproject.toml").read_text()))
    *mirrors, local = hooks
    found = {repo["repo"].rpartition("/")[2]: repo["rev"].removeprefix("v") for repo in mirrors}
    assert local["hooks"][0]["additional_dependencies"] == [f"clang-tidy=={pinned['clang-tidy']}"]
    assert found == {
        "ruff-pre-commit": pinned["ruff"],
        "mirrors-clang-format": pinned["clang-format"],
    }


def test_constraints_allow_what_is_pinned():
    """Every requirement of the test and demo extras has an exact version, a pinned one its own."""
    text = (ROOT / "tools" / "constraints.txt").read_text()
    exact = {n.lower(): v for n, v in re.findall(r"^([\w.-]+)==(\S+)$", text, re.MULTILINE)}
    project = (ROOT / "pyproject.toml").read_text()
    lists = re.findall(r"^(?:requires|dependencies|test|demo) = (\[.*?\])$", project, re.M | re.S)
    assert len(lists) == 4
    for name, rest in re.findall(r'"([\w-]+)([^"]*)"', "".join(lists)):
        assert name in exact, name
        assert not rest.startswith("==") or rest == f"=={exact[name]}"


def test_constraints_serve_the_python_of_debian():
    """Debian 12 has 3.11.2, where a version that needs a later 3.11 cannot be installed."""
    text = (ROOT / "tools" / "constraints.txt").read_text()
    asked = {}
    for name, exact in re.findall(r"^([\w.-]+)==(\S+)$", text, re.MULTILINE):
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        if found.version == exact:
            asked[name] = found.metadata["Requires-Python"] or ">=3"
    assert len(asked) > 20
    assert not {n: s for n, s in asked.items() if "3.11.2" not in SpecifierSet(s)}


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md"])
def test_root_pages(name):
    """Short, and what they link to exists."""
    text = (ROOT / name).read_text()
    assert text.count("\n") < 40
    for link in re.findall(r"\]\(([^)#:\s]+)", text):
        assert (ROOT / link).exists(), link


def test_every_page_has_a_next_step():
    """A link to another page, in words that a reader finds at its end in either language."""
    pages = [path for path in (ROOT / "docs").glob("*.md") if path.name != "README.md"]
    assert len(pages) > 30
    for path in pages:
        end = path.read_text().rstrip().rpartition("\n\n")[2]
        word = "接下来：" if path.name.endswith(".zh-CN.md") else "Next: "
        link = end.partition(word)[2]
        assert re.search(r"^\[[^]]+\]\((\S+\.md|\.\./examples/\S+)\)", link), path.name
