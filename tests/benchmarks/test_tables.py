"""Tables and curves of the pages are those of the figures in benchmarks/results."""

import math
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import mindspore_nsa
from benchmarks import figures, plot, table_rows, tables

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / table_rows.RESULTS
SVG = "{http://www.w3.org/2000/svg}"
PAGE = """Text.

<!-- table: memory of workers -->

| Arbeiter | a | b | c | d |
|---|---|---|---|---|
| 9 | 9 MB | | 9 MB | |

<!-- end of table -->
"""


def test_pages_have_the_figures_of_their_files():
    """`python -m benchmarks.tables --check` compares the same, and names the pages that differ."""
    found = tables.pages()
    assert len(found) >= 8
    differ = [str(path) for path, (text, new) in found.items() if text != new]
    assert not differ, "run python -m benchmarks.tables, or mend the file in benchmarks/results"


def test_every_file_has_a_machine_a_day_and_a_page():
    files = {str(path.relative_to(RESULTS)) for path in RESULTS.glob("*/*.csv")}
    runs = {row["file"]: row for row in tables.read(RESULTS / "runs.csv")}
    assert [*runs] == sorted(files)
    for row in runs.values():
        assert row["machine"] and re.fullmatch(r"20\d\d-\d\d-\d\d", row["noted"]), row
    text = "".join(text for text, _ in tables.pages().values())
    linked = set(re.findall(r"\]\(\.\./(benchmarks/results/\w+/\w+\.csv)\)", text))
    used = {table.file for table in table_rows.TABLES.values()} | linked
    assert used == {f"{table_rows.RESULTS}/{file}" for file in files}
    assert {match["name"] for match in tables.PLACE.finditer(text)} == {*tables.TABLES}


# The section of a table names the machine of its folder with these words.
MACHINES = {
    "amd_epyc_avx512_bf16": "EPYC",
    "amd_zen5": "Zen 5",
    "ascend_910b1_modelled": "odelled",
    "intel_xeon_amx": "AMX",
    "intel_xeon_avx512": "AVX-512",
}


def test_a_table_stands_beside_its_machine():
    """In the pages in English; a file that names its processor is in the folder of its maker."""
    seen = set()
    for path, (text, _) in tables.pages().items():
        for section in re.split(r"(?m)^#+ ", "" if path.name.endswith(".zh-CN.md") else text):
            for match in tables.PLACE.finditer(section):
                folder = Path(tables.TABLES[match["name"]].file).parent.name
                assert MACHINES.get(folder, "") in section, (path.name, match["name"])
                seen.add(folder)
    assert seen >= {*MACHINES}
    for path in RESULTS.glob("*/*.csv"):
        for row in table_rows.read(path):
            maker = path.parent.name.partition("_")[0]
            assert maker in row.get("cpu", maker).lower(), path


def test_figures_are_of_a_recent_version():
    """A file that names its version is at most two minor versions old."""
    now, ages = _minor(mindspore_nsa.__version__), {}
    for path in RESULTS.glob("*/*.csv"):
        for row in table_rows.read(path):
            if version := row.get("mindspore_nsa"):
                ages[path.parent.name, path.name, version] = now - _minor(version)
    assert ages
    assert not [one for one, age in ages.items() if age > 2], "measure anew, or delete"


def _minor(version):
    major, minor = map(int, version.split(".")[:2])
    assert major == 0, "say how many minor versions a major one counts"
    return minor


def test_another_figure_would_be_seen(tmp_path, capsys):
    """The heading is the page's, the rows are the file's; --check writes nothing."""
    file = tables.TABLES["memory of workers"].file
    (tmp_path / file).parent.mkdir(parents=True)
    shutil.copy(ROOT / file, tmp_path / file)
    page = tmp_path / "README.md"
    page.write_text(PAGE)
    (tmp_path / "README.zh-CN.md").write_text("No table.\n")
    for options, code, said in (
        (["--check"], 1, "README.md: differs\n"),
        ([], 0, "README.md: written\n"),
        (["--check"], 0, ""),
    ):
        assert tables.main(options, tmp_path) == code
        assert capsys.readouterr().out == said
    rows = tables.rows_of("memory of workers")
    assert rows.startswith("| 1 | 1058 MB | | 943 MB | |\n| 2 | 645 MB | 0.610 | ")
    assert page.read_text() == PAGE.replace("| 9 | 9 MB | | 9 MB | |\n", rows)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("memory of workers", "nobody's"),
        lambda text: text.replace("<!-- end of table -->", ""),
        lambda text: text.replace("| d |", "| d | e |"),
        lambda text: text.replace("|---|---|---|---|---|\n", ""),
    ],
    ids=["name", "end", "columns", "heading"],
)
def test_a_broken_place_is_refused(change):
    with pytest.raises(ValueError, match="page.md: "):
        tables.filled(change(PAGE), "page.md")


def test_a_run_of_the_benchmarks_can_take_the_place_of_noted_figures():
    """All digits of a measurement, and the peer from which the bound follows."""
    row = {"operator": "NsaDecode", "dtype": "float32", "shape": "S=4096 B=8 N=64/4 D=128"}
    row |= {"seconds": "0.00161649999", "kernel_seconds": "0.0010923333", "share": "0.4567"}
    row |= {"bytes": "29310976", "speedup_over_reader": "0.71359375"}
    row |= {"speedup_over_dense": "2.0166", "speedup_over_torch": "7.219"}
    (cells,) = table_rows.decoding([row, row | {"operator": "NsaCompressWithCache"}])
    assert cells == [
        "float32, 4096, batch 8",
        "29.3",
        "1616",
        "1092",
        "0.46",
        "0.64",
        "2.02x",
        "7.22x",
    ]
    assert table_rows.digits("0.25671075", scale=3) == "257" and table_rows.digits("9.3") == "9.3"
    assert (
        table_rows.digits("0.0730") == "0.0730" and table_rows.digits("0.000400", scale=6) == "400"
    )
    assert table_rows.ratio("no bf16") == ""


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """Folder of freshly drawn pictures."""
    folder = tmp_path_factory.mktemp("drawn")
    command = [sys.executable, "-m", "benchmarks.figures", "--out", folder]
    subprocess.run(command, check=True, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)})
    return folder


def content(path):
    """({curve: points}, texts) of a picture; another matplotlib may write another file."""
    root = ET.parse(path).getroot()
    curves = {}
    for group in root.iter(f"{SVG}g"):
        if group.get("id", "").startswith("curve: "):
            numbers = re.findall(r"-?[\d.]+", group.find(f"{SVG}path").get("d"))
            curves[group.get("id")] = [float(number) for number in numbers]
    texts = ["".join(element.itertext()).strip() for element in root.iter(f"{SVG}text")]
    return curves, texts


@pytest.mark.parametrize("name", ["time", "memory", "recall", "conversion"])
def test_pictures_are_those_of_the_figures(name, drawn):
    curves, texts = content(drawn / f"{name}.svg")
    kept, kept_texts = content(ROOT / "docs" / "figures" / f"{name}.svg")
    assert texts == kept_texts and len(texts) >= 10
    assert curves.keys() == kept.keys() and len(curves) >= 2
    for curve, points in curves.items():
        assert len(points) >= 6 and points == pytest.approx(kept[curve], abs=0.1), curve


def test_curves_are_at_their_figures(drawn):
    """From the file to the place on the paper: a decade is as high everywhere."""
    curves, _ = content(drawn / "memory.svg")
    rows = table_rows.by_length(tables.read(figures.LENGTHS))
    shown = {"nsa": "NSA", "flash_attention_score": "dense: flash_attention_score"}
    at = {name: curves[f"curve: {words}"][1::2] for name, words in shown.items()}

    def decades(name, tokens):
        return math.log10(float(rows[tokens][name]["bytes"]) / float(rows[1024]["nsa"]["bytes"]))

    height = (at["nsa"][-1] - at["nsa"][0]) / decades("nsa", max(rows))
    for name, heights in at.items():
        expected = [at["nsa"][0] + height * decades(name, tokens) for tokens in rows]
        assert heights == pytest.approx(expected, abs=0.1), name


def test_nothing_leaves_its_picture():
    """A caption was cut off at both ends."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    with matplotlib.rc_context(figures.style()):
        for name, figure in figures.draw().items():
            # The paper itself is not asked.
            figure.patch.set_visible(False)
            taken, paper = (
                figure.get_tightbbox(FigureCanvasAgg(figure).get_renderer()),
                figure.bbox_inches,
            )
            assert paper.x0 < taken.x0 and taken.x1 < paper.x1, name
            assert paper.y0 < taken.y0 and taken.y1 < paper.y1, name


def test_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SystemExit, match=r"figures needs matplotlib: pip install .*\[bench\]"):
        plot.require("figures")


def test_the_diagram_is_that_of_its_script(tmp_path):
    source, picture = (ROOT / "docs" / "figures" / f"branches.{end}" for end in ("py", "svg"))
    shutil.copy(source, tmp_path)
    subprocess.run([sys.executable, tmp_path / source.name], check=True)
    assert (tmp_path / picture.name).read_text() == picture.read_text()
    text = picture.read_text()
    # In the widest font that a browser may take.
    width, height = map(int, re.search(r'width="(\d+)" height="(\d+)"', text).groups())
    line = re.compile(
        r'<text x="([\d.]+)" y="([\d.]+)" font-size="([\d.]+)" .*?text-anchor="(\w+)" '
        r'font-weight="(\w+)">(.*?)</text>'
    )
    found = line.findall(text)
    assert len(found) >= 10
    for x, y, size, anchor, weight, words in found:
        taken = float(size) * len(words) * (0.68 if weight == "bold" else 0.6)
        begin = float(x) - {"start": 0, "middle": taken / 2, "end": taken}[anchor]
        assert 0 <= begin and begin + taken <= width and 0 < float(y) < height, words
