"""`python -m ascendc_twin check` and `tiling`: what sources of others miss in the twin."""

import pytest

from ascendc_twin import _check, _tiling

from ..programs import python

KERNEL = """#include "kernel_operator.h"
#include "{header}"
extern "C" __global__ __aicore__ void scale_rows(GM_ADDR x, GM_ADDR tiling) {{
  GET_TILING_DATA(data, tiling);
  AscendC::LocalTensor<float> rows;
  AscendC::Adds(rows, rows, data.inner.factor, data.counts[{last}]);
  {statements}
}}
"""
TILING = """#include "register/tilingdata_base.h"
#include "no/such/host/header.h"
namespace optiling {
#define HALF 2
constexpr uint32_t kCores = 2 * HALF;
constexpr uint32_t kUnused = NOT_KNOWN_HERE;
BEGIN_TILING_DATA_DEF(Inner)
TILING_DATA_FIELD_DEF(float, factor);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(InnerOp, Inner)
BEGIN_TILING_DATA_DEF(Outer)
TILING_DATA_FIELD_DEF(uint8_t, kind);  // TILING_DATA_FIELD_DEF(uint8_t, gone);
TILING_DATA_FIELD_DEF_ARR(uint16_t, kCores, counts);
TILING_DATA_FIELD_DEF_STRUCT(Inner, inner);
TILING_DATA_FIELD_DEF_STRUCT(TopkTiling, topk);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(ScaleRows, Outer)
BEGIN_TILING_DATA_DEF(Other)
TILING_DATA_FIELD_DEF(int64_t, rows);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(OtherRows, Other)
}  // namespace optiling
"""
MISSING = (
    "AscendC::Frobnicate(rows); Gnu(2); AscendC::Frobnicate(1); rows.Turn(); AscendC::Add(rows, 3);"
)


def run(*arguments):
    return python("-m", "ascendc_twin", *arguments)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "tiling.h").write_text(TILING)
    right = KERNEL.format(header="kernel_tensor.h", last="kCores - 1", statements="")
    (tmp_path / "scale_rows.cpp").write_text(right)
    wrong = KERNEL.format(header="not/there.h", last=0, statements=MISSING)
    (tmp_path / "wrong").mkdir()
    wrong = wrong.replace("Adds(rows", "Frobnicate(rows")
    (tmp_path / "wrong" / "scale_rows.cpp").write_text(wrong)
    return tmp_path


@pytest.mark.parametrize("compiler", ["g++", "libclang"])
def test_names_are_sorted_by_how_many_sources_miss_them(folder, compiler):
    sources = folder / "scale_rows.cpp", folder / "wrong" / "scale_rows.cpp"
    options = "--compiler", compiler, "--tiling", folder / "tiling.h"
    done = run("check", *options, *sources)
    lines = done.stdout.splitlines()
    assert done.returncode == 1 and done.stderr == "", done.stderr
    assert lines[0] == f"{sources[0]}: compiles", done.stdout
    assert lines[1].startswith(f"{sources[1]}: does not compile, errors: ")
    assert lines[-1] == "1 of 2 sources compile"
    rows = [line.split(maxsplit=2) for line in lines[4:-2]]
    found = {row[2].rpartition(", ")[0]: (int(row[0]), int(row[1])) for row in rows}
    expected = {"Frobnicate": (1, 3), "Gnu": (1, 1), "Turn": (1, 1)}
    expected |= {"overload: Add": (1, 1), "header: not/there.h": (1, 1)}
    assert found == expected
    assert list(found)[0] == "Frobnicate" and rows[0][2].endswith("wrong/scale_rows.cpp:6")


def test_options_that_clang_takes(folder):
    """clang 16 ends with an error at g++'s name of an option."""
    compiler = folder / "clang++"
    compiler.write_text("""#!/bin/sh
for option do
  shift
  case $option in
    -fno-diagnostics-show-caret) echo "error: unknown argument: '$option'" >&2; exit 1;;
    -ferror-limit=0 | -fno-caret-diagnostics) ;;
    *) set -- "$@" "$option";;
  esac
done
exec g++ "$@"
""")
    compiler.chmod(0o755)
    options = "--compiler", compiler, "--tiling", folder / "tiling.h"
    done = run("check", *options, folder / "scale_rows.cpp")
    assert done.returncode == 0 and "unknown argument" not in done.stdout, done.stdout


def test_a_source_that_compiles_is_a_success(folder):
    done = run("check", "--tiling", folder / "tiling.h", folder / "scale_rows.cpp")
    assert done.returncode == 0 and done.stdout.endswith("1 of 1 sources compile\n"), done.stdout


def test_halves(folder):
    """One source for both kinds of core: each compilation reads its own branch."""
    source = folder / "two.cpp"
    source.write_text(
        '#include "kernel_operator.h"\n'
        "template <typename T> void kernel(T x) {\n"
        "  if ASCEND_IS_AIC { x.OnlyOfTheCube(); } else { x.OnlyOfTheVector(); }\n"
        "}\nvoid both() { kernel(AscendC::LocalTensor<int>()); }\n"
    )
    missing = {half: run("check", "--half", half, source).stdout for half in ("cube", "vector")}
    assert "OnlyOfTheCube" in missing["cube"] and "OnlyOfTheVector" not in missing["cube"]
    assert "OnlyOfTheVector" in missing["vector"] and "OnlyOfTheCube" not in missing["vector"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("check", "none.cpp"), "none.cpp: No such file"),
        (("check", "--compiler", "no-such-compiler", __file__), "no-such-compiler: No such file"),
        (("check", "--tiling", "none.h", __file__), "none.h: No such file"),
        (("tiling", __file__, "none.h"), "none.h"),
        (("tiling", _check.__file__), "no BEGIN_TILING_DATA_DEF"),
        (("check",), "SOURCE.cpp"),
    ],
)
def test_what_cannot_be_checked(arguments, said):
    done = run(*arguments)
    assert done.returncode != 0 and done.stdout == ""
    assert said in done.stderr and "Traceback" not in done.stderr, done.stderr


def test_flags_that_the_compiler_refuses(folder):
    done = run("check", folder / "scale_rows.cpp", "--", "-fno-such-flag")
    assert done.returncode == 1 and "-fno-such-flag" in done.stdout


def test_structs_of_tiling_data():
    """The kernel reads structs at multiples of 8 bytes, and the one of its own."""
    text = _tiling.structs([TILING], "scale_rows")
    assert "gone" not in text and "kUnused" not in text and "uint16_t counts[kCores];" in text
    assert text.endswith("using TwinDefaultTiling = Outer;\n")
    assert _tiling.structs([TILING]).endswith("using TwinDefaultTiling = Other;\n")
    for wrong in ("TILING_DATA_FIELD_DEF(int8_t)", "TILING_DATA_FIELD_DEF_ARR(int8_t, a)"):
        with pytest.raises(ValueError, match="Wrong: TILING_DATA_FIELD_DEF"):
            _tiling.structs([f"BEGIN_TILING_DATA_DEF(Wrong) {wrong} END_TILING_DATA_DEF"])
    with pytest.raises(ValueError, match="no BEGIN_TILING_DATA_DEF"):
        _tiling.structs(["nothing"])


@pytest.mark.parametrize(
    ("said", "kind", "name"),
    [
        ("'Sum' was not declared in this scope; did you mean 'Sun'?", "name", "Sum"),
        ("use of undeclared identifier 'Sum'", "name", "Sum"),
        ("'Sum' is not a member of 'AscendC'", "name", "Sum"),
        ("no member named 'Sum' in namespace 'AscendC'", "name", "Sum"),
        ("no template named 'Sum' in namespace 'AscendC'; did you mean 'Sun'?", "name", "Sum"),
        ("'class AscendC::LocalTensor<float>' has no member named 'Turn'", "name", "Turn"),
        ("no member named 'Turn' in 'AscendC::LocalTensor<float>'", "name", "Turn"),
        ("'SumParams' does not name a type", "name", "SumParams"),
        ("unknown type name 'SumParams'", "name", "SumParams"),
        ("no matching function for call to 'Add<float>(A<b(c)>&, int)'", "overload", "Add"),
        ("no matching function for call to 'AscendC::Add'", "overload", "Add"),
        ("lib/a.h: No such file or directory", "header", "lib/a.h"),
        ("'lib/a.h' file not found", "header", "lib/a.h"),
        ('#error "not this"', "#error", "not this"),
        ("static assertion failed: Add: takes half", "refused", "Add: takes half"),
        (
            "static assertion failed due to requirement 'x': Add: not half",
            "refused",
            "Add: not half",
        ),
        ("expected ';' before '}' token", "other", "expected ';' before '}' token"),
    ],
)
def test_messages_of_compilers(said, kind, name):
    assert _check.classify(said) == _check.Missing(kind, name)
