"""Instruction sets stand in cpu/engine alone: operators say which rows meet which keys."""

import re

import pytest

from .conftest import ROOT

CPU = ROOT / "cpu"
ENGINE = CPU / "engine"
# Not the engine, and not operators: the units of the instruction sets and the choice among them.
DISPATCH = CPU / "dispatch"
# These files ask which kernel variants a translation unit has.
CHOOSERS = {"kernel_variant.h", "forward.h", "gradient.h", "decode.h"}
CONDITION = re.compile(r"^\s*#\s*(?:if|el|endif|define\s+NSA_ISA|undef)", re.MULTILINE)
# Matches intrinsics of x86 and of Arm, and the assembler of tiles.
INTRINSIC = re.compile(
    r"\b_mm\w*\(|\b__m\d+\w*\b|\b_tile_\w+|\bv\w+q_[fsu]\d+\b|\b(?:float|u?int)\d+x\d+_t\b"
    r"|\basm\b|\btile_(?:load|store|dot|zero)\w*|\bamx_\w+\(|immintrin|arm_neon"
)
SOURCES = sorted(path for path in CPU.rglob("*") if path.suffix in (".h", ".cc"))
OPERATORS = [p for p in SOURCES if ENGINE not in p.parents and DISPATCH not in p.parents]
STEPS = [p for p in SOURCES if p.parent == ENGINE / "step"]


def _with(paths, *patterns):
    """The lines of files that match one of the patterns, each with its file."""
    return [
        f"{path.relative_to(CPU)}: {found.group().strip()}"
        for path in paths
        for pattern in patterns
        for found in pattern.finditer(path.read_text())
    ]


def _includes(path):
    """The folders, or files, of cpu/ of which a file includes something."""
    return set(re.findall(r'#include "cpu/(\w+)', path.read_text()))


def test_all_are_seen():
    assert len(OPERATORS) > 40 and len(STEPS) > 15
    assert CHOOSERS <= {path.name for path in STEPS}


def test_no_instruction_set_in_operators():
    assert _with(OPERATORS, CONDITION, INTRINSIC) == []


def test_a_variant_is_a_file():
    assert _with([path for path in STEPS if path.name not in CHOOSERS], CONDITION) == []


def test_the_engine_knows_no_operator():
    known = {"engine", "types", "runtime"}
    assert [p for p in SOURCES if ENGINE in p.parents and not _includes(p) <= known] == []


def test_operators_do_not_include_each_other():
    folders = {path.name for path in CPU.iterdir() if path.is_dir()}
    for path in OPERATORS:
        known = {"engine", "dispatch", path.parent.name}
        assert (_includes(path) & folders) <= known, path


# The other instruction sets' vectors: a translation unit includes one of them.
VECTORS = {p.name for p in SOURCES if p.name.startswith("vec_")} - {"vec_avx512.h", "vec_math.h"}
MOST_FILES, MOST_LINES = 35, 600


def _compiled(*files):
    """The files of the project from which these are compiled, on AMX."""
    seen, new = set(), set(files)
    while new:
        seen |= new
        named = [re.findall(r'#include "([\w/]+\.h)"', path.read_text()) for path in new]
        new = {ROOT / name for names in named for name in names} - seen
        new = {path for path in new if path.name not in VECTORS}
    return seen


def test_few_files_make_an_operator():
    """A reader of its forward and gradient passes so many doors, parameters and table included."""
    files = _compiled(*(CPU / "nsa_selected_attention").iterdir())
    assert 25 < len(files) <= MOST_FILES, sorted(str(path.relative_to(ROOT)) for path in files)
    assert [path for path in SOURCES if len(path.read_text().splitlines()) > MOST_LINES] == []


MOST_PARAMETERS = 8
# "const Segment& seg": a parameter, not what a call is given.
PARAMETER = re.compile(r"(?:const\s+)?[\w:]+(?:<[^()]*>)?[\s*&]+\w+\Z")


def _lists(text):
    """(name, items) of what stands in parentheses after a name, declarations of functions only."""
    text = re.sub(r"//[^\n]*", "", text)
    for found in re.finditer(r"([\w:~]+)\s*\(", text):
        end, depth, angles, items = found.end(), 1, 0, [""]
        while depth and end < len(text):
            sign = text[end]
            depth += (sign in "([{") - (sign in ")]}")
            angles += (sign == "<") - (sign == ">" and text[end - 1] != "-")
            if sign == "," and depth == 1 and angles <= 0:
                items.append("")
            elif depth:
                items[-1] += sign
            end += 1
        declared = re.match(r"\s*(?:const)?\s*(?:[{;:]|->)", text[end:])
        if declared and PARAMETER.match(items[0].strip()):
            yield found.group(1), items


def _many_parameters(paths):
    return [
        f"{path.relative_to(CPU)}: {name} takes {len(items)}"
        for path in paths
        for name, items in _lists(path.read_text())
        if len(items) > MOST_PARAMETERS
    ]


def test_functions_take_few_parameters():
    assert _many_parameters(SOURCES) == []


def test_many_parameters_are_found():
    names = ", ".join(f"int64_t n{i}" for i in range(9))
    assert [len(x) for _, x in _lists(f"inline void f(const Plan& p, {names}) {{")] == [10]
    assert [len(x) for _, x in _lists("std::map<int, int> g(const Map<int, int>& m, V x);")] == [2]
    assert [*_lists("return h(a, b, c);")] == []


@pytest.mark.parametrize(
    "line",
    [
        "#ifdef NSA_ISA_AMX",
        "#if defined(__AVX512F__)",
        "return _mm512_add_ps(a, b);",
        "__m256 x;",
        "float32x4_t y = vaddq_f32(a, b);",
        "tile_load<0>(p, 16);",
        "amx_begin();",
    ],
)
def test_what_is_found(line):
    assert CONDITION.search(line) or INTRINSIC.search(line)
