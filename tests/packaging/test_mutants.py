"""Mutants: every kind is made, a change that matters is killed and one of a comment survives."""

from pathlib import Path

import pytest

from tests.mutants import python_places
from tests.mutants.__main__ import CleanError, clean_seconds, draw, files_of, judged, report
from tests.mutants.copy import ROOT, Copy
from tests.mutants.cpp_places import parsed
from tests.mutants.cpp_places import places as cpp_places
from tests.mutants.equivalent import EQUIVALENT
from tests.mutants.judges import QUICK, RESPONSIBLE, Judge, judges_of
from tests.mutants.mutant import Mutant, read

CPP = """
void PipeBarrier();
int max(int a, int b);
int min(int a, int b);
int g(int a, int b);
static_assert(2 < 3, "");
template <typename T>
int f(int a, int b, T c) {
  int d = 7;  // 5 < 6
  PipeBarrier();
  if (a < b && d > 2) d += max(a, b);
  d = d - static_cast<int>(c);
  return g(a, d);
}
"""
CPP_MUTANTS = {
    "int d = (7 + 1); // 5 < 6": "literal",
    "int d = (7 - 1); // 5 < 6": "literal",
    "if (a <= b && d > 2) d += max(a, b);": "comparison",
    "if (a < b || d > 2) d += max(a, b);": "and, or",
    "if (a < b && d >= 2) d += max(a, b);": "comparison",
    "if (a < b && d > (2 + 1)) d += max(a, b);": "literal",
    "if (a < b && d > (2 - 1)) d += max(a, b);": "literal",
    "if (!(a < b && d > 2)) d += max(a, b);": "condition",
    "if (a < b && d > 2) d -= max(a, b);": "sum",
    "if (a < b && d > 2) d += min(a, b);": "extreme",
    "return g(d, a);": "arguments",
    "if (a < b && d > 2) (void)0;": "statement",
    "d = d + static_cast<int>(c);": "sum",
}

PYTHON = '''
"""A text with 1 < 2."""
def f(a: int, b, c: list[3]):
    """Another: 3 + 4."""
    if a < b and c:  # 5 < 6
        c[0] = max(a, b) - 7
    return f"{8}", g(a, b), True
'''
PYTHON_MUTANTS = {
    "if a <= b and c: # 5 < 6": "comparison",
    "if a < b or c: # 5 < 6": "and, or",
    "if (not (a < b and c)): # 5 < 6": "condition",
    "c[(0 + 1)] = max(a, b) - 7": "literal",
    "c[(0 - 1)] = max(a, b) - 7": "literal",
    "c[0] = min(a, b) - 7": "extreme",
    'return f"{8}", g(b, a), True': "arguments",
    "c[0] = max(a, b) + 7": "sum",
    "c[0] = max(a, b) - (7 + 1)": "literal",
    "c[0] = max(a, b) - (7 - 1)": "literal",
    "pass": "statement",
    'return f"{8}", g(a, b), False': "literal",
}


def test_every_kind_of_cpp(tmp_path):
    (tmp_path / "f.h").write_text(CPP)
    unit = parsed(tmp_path / "f.cc", ["-std=c++17"], f'#include "{tmp_path}/f.h"\n')
    found = cpp_places(tmp_path, "f.h", unit)
    # The barrier, and the statement after the if, read alike when they are dropped.
    assert [one.kind for one in found if one.lines(CPP)[1] == "(void)0;"] == [
        "barrier",
        "statement",
    ]
    after = {one.lines(CPP)[1]: one.kind for one in found if one.lines(CPP)[1] != "(void)0;"}
    assert after == CPP_MUTANTS


def test_every_kind_of_python(tmp_path):
    (tmp_path / "f.py").write_text(PYTHON)
    found = python_places.places(tmp_path, "f.py")
    assert {one.lines(PYTHON)[1]: one.kind for one in found} == PYTHON_MUTANTS


def test_drawn_again_from_the_seed():
    files = files_of(["mindspore_nsa/ops"])
    here = Copy(ROOT)
    here.tree = ROOT
    first, again, other = (draw(here, files, 30, seed, ()) for seed in (0, 0, 1))
    assert first == again and len(set(first)) == 30 and set(first) != set(other)


FILES = {
    "one.py": "def most(a, b):  # the larger\n    while a < 0:\n        a += 1\n"
    "    return max(a, b)\n",
    "one.cc": 'extern "C" int least(int a, int b) {  // the smaller\n  return a < b ? a : b;\n}\n',
    "CMakeLists.txt": "cmake_minimum_required(VERSION 3.22)\nproject(one CXX)\n"
    "add_library(_native MODULE one.cc)\n"
    "set_target_properties(_native PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${NSA_MODULE_DIR})\n",
    "test_one.py": """import ctypes, subprocess, sys
from pathlib import Path
import one
def test_most():
    assert one.most(1, 2) == 2 and one.most(-1, -2) == 0
def test_least():
    native = ctypes.CDLL(str(Path(one.__file__).with_name("mindspore_nsa") / "lib_native.so"))
    assert [native.least(1, 2), native.least(2, 1), native.least(3, 3)] == [1, 1, 3]
def test_in_a_child():
    code = "import one; assert one.most(1, 2) == 2"
    assert subprocess.run([sys.executable, "-c", code], cwd="/").returncode == 0
def test_leaves_a_worker():
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    worker = subprocess.Popen(command, start_new_session=True)
    Path(one.__file__).with_name("worker").write_text(str(worker.pid))
""",
}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A copy of a project of two files, which has been built."""
    copy = Copy(tmp_path_factory.mktemp("mutants"))
    (copy.tree / "mindspore_nsa").mkdir(parents=True)
    for name, text in FILES.items():
        (copy.tree / name).write_text(text)
    copy.configure()
    copy.clean["_native"] = copy.make("_native")
    return copy


def _fate(small, file, old, new, test, seconds=1.0):
    at = FILES[file].index(old)
    mutant = Mutant(file, "test", at, at + len(old), new)
    judge = Judge((f"test_one.py::{test}",))
    found = judged(small, mutant, [judge], {judge: seconds})
    assert read(small.tree / file) == FILES[file]
    return found


@pytest.mark.parametrize(
    "file, old, new, test, fate",
    [
        ("one.py", "max", "min", "test_most", "killed"),
        ("one.py", "max", "min", "test_in_a_child", "killed"),
        ("one.py", "the larger", "the smaller", "test_most", "survived"),
        ("one.cc", "a < b", "b < a", "test_least", "killed"),
        ("one.cc", "a < b", "a <= b", "test_least", "survived"),
        ("one.cc", "the smaller", "the larger", "test_least", "same code"),
        ("one.cc", "a < b", "a << ;", "test_least", "not compiled"),
    ],
)
def test_what_becomes_of_a_mutant(small, file, old, new, test, fate):
    state, by = _fate(small, file, old, new, test)
    assert state == fate, by
    if fate == "killed":
        assert by == f"test_one.py::{test}"
    if fate == "not compiled":
        assert "one.cc:2:" in by


def test_a_mutant_that_does_not_end(small):
    # A judge waits 30 seconds and three times its usual time: -9 usual seconds leave it three.
    assert _fate(small, "one.py", "a += 1", "a += 0", "test_most", -9.0)[0] == "timed out"


def test_workers_end_with_their_judge(small):
    code, output, _ = small.judge(Judge(("test_one.py::test_leaves_a_worker",)), 60)
    assert code == 0, output
    state = Path(f"/proc/{(small.tree / 'worker').read_text()}/stat")
    # Who has ended stays a zombie until its new parent asks for it.
    assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"


def test_judges_must_pass_without_a_mutant(small, monkeypatch, tmp_path):
    small.digest = "test"
    monkeypatch.setattr("tests.mutants.__main__.BUILD", tmp_path)
    right, wrong = (Judge((f"test_one.py::test_{name}",)) for name in ("most", "none"))
    assert clean_seconds(small, [right], None)[right] > 0
    with pytest.raises(CleanError, match="without a mutant it fails: .*test_none"):
        clean_seconds(small, [wrong], None)


def test_every_source_has_judges():
    files = files_of(["cpu", "infer", "binding", "ascendc", "mindspore_nsa"])
    assert {folder for folder in RESPONSIBLE if any(file.startswith(folder) for file in files)} == {
        *RESPONSIBLE
    }
    for file in files:
        judges = judges_of(ROOT, file)
        assert judges, file
        tests = [x for judge in judges for x in judge.tests if x.startswith("tests/")]
        missing = [x for x in tests if not (ROOT / x.split("::")[0]).exists()]
        assert not missing, (file, missing)
        quick = judges_of(ROOT, file, quick=True)
        assert quick and {x.tests[0].split("::")[0] for x in quick} <= {
            x.split("::")[0] for x in tests
        }, file


def test_quick_judges_are_tests():
    for folder, tests in QUICK.items():
        for name, parts in tests.items():
            files = [*(ROOT / "tests").glob(f"{name}*.py"), *(ROOT / "tests").glob(name)]
            assert files, (folder, name)
            texts = [file.read_text() for file in files if file.is_file()]
            for part in parts:
                found = [f"def {part.partition('[')[0]}(" in text for text in texts]
                assert any(found), (folder, name, part)


def test_equivalent_mutants_are_of_these_sources():
    for (file, before, after), why in EQUIVALENT.items():
        # One place each: of two equal lines a mutant may matter in one.
        lines = [" ".join(line.split()) for line in read(ROOT / file).splitlines()]
        found = [" ".join(lines[i : i + n]) for i in range(len(lines)) for n in (1, 2, 3)]
        assert found.count(before) == 1, (file, before)
        assert before != after and len(why.split()) > 3, (file, before)


def test_report():
    mutants = [Mutant(f"cpu/{i}.h", "literal", 0, 1, "") for i in range(4)]
    states = ["killed", "timed out", "survived", "not compiled"]
    lines = list(report([(one, state, "") for one, state in zip(mutants, states)]))
    assert [line.partition(",")[0] for line in lines] == [
        "cpu/: 2 of 3 killed (0.67)",
        "all: 2 of 3 killed (0.67)",
    ]
