"""Rules of CANN's compiler for kernels that a host compiler does not check: global memory has an
address space of its own, and a core calls only functions and lambdas marked __aicore__."""

import subprocess

import pytest
from clang.cindex import CursorKind, Diagnostic, Index

from mindspore_nsa import twin
from twin.tests import builds

SOURCE = str(builds.ROOT / "ascendc" / "kernels.cc")  # nothing lies there
KERNELS = sorted((builds.ROOT / "ascendc").glob("*/op_kernel/*.cpp"))
FUNCTIONS = (
    CursorKind.FUNCTION_DECL,
    CursorKind.FUNCTION_TEMPLATE,
    CursorKind.CXX_METHOD,
    CursorKind.CONSTRUCTOR,
    CursorKind.DESTRUCTOR,
    CursorKind.CONVERSION_FUNCTION,
)


def _flags():
    compiler = [builds.COMPILER, "-print-file-name=include"]
    headers = subprocess.run(compiler, capture_output=True, text=True, check=True).stdout.strip()
    return [
        *("-std=c++17", "-ferror-limit=0", "-isystem", headers, f"-I{builds.ROOT}"),
        *("-D__gm__=__attribute__((address_space(1)))", *twin.cflags()),
        '-D__aicore__=__attribute__((annotate("aicore")))',
    ]


def _in_kernels(cursor):
    file = cursor.location.file
    return file is not None and file.name.startswith(str(builds.ROOT / "ascendc"))


def _is_marked(cursor):
    if cursor.kind != CursorKind.LAMBDA_EXPR:
        return any(child.kind == CursorKind.ANNOTATE_ATTR for child in cursor.get_children())
    body = [c for c in cursor.get_children() if c.kind == CursorKind.COMPOUND_STMT][-1]
    begin = body.extent.start.offset
    return any(
        token.spelling == "__aicore__"
        for token in cursor.get_tokens()
        if token.extent.start.offset < begin
    )


def _functions(cursor):
    for child in cursor.get_children():
        if child.kind != CursorKind.NAMESPACE and not _in_kernels(child):
            continue
        if child.kind == CursorKind.LAMBDA_EXPR:
            yield child
        elif child.kind in FUNCTIONS and child.is_definition():
            yield child
        yield from _functions(child)


def _place(at):
    return f"{at.location.file.name.removeprefix(f'{builds.ROOT}/')}:{at.location.line}"


def analyse(text):
    """The errors in a text and what it includes; the functions of the kernels in it, and those that
    are not marked, by their places."""
    unit = Index.create().parse(SOURCE, args=_flags(), unsaved_files=[(SOURCE, text)])
    errors = [
        f"{_place(found)}: {found.spelling}"
        for found in unit.diagnostics
        if found.severity >= Diagnostic.Error
    ]
    functions = list(_functions(unit.cursor))
    return errors, functions, [_place(f) for f in functions if not _is_marked(f)]


def test_kernels():
    types = "".join(f"#define DTYPE_{name} half\n" for name in ("INPUT", "QUERY", "SELECTED"))
    includes = (f'#include "{path.relative_to(builds.ROOT)}"\n' for path in KERNELS)
    errors, functions, unmarked = analyse(types + "".join(includes))
    assert len(KERNELS) == 12 and len(functions) > 400
    assert errors == [] and unmarked == []


RIGHT = """#include "kernel_operator.h"
struct Arguments {
  GM_ADDR from;
  GM_ADDR to;
};
template <typename F>
__aicore__ inline void Times(int n, const F& f) {
  for (int i = 0; i < n; ++i) f(i);
}
extern "C" __global__ __aicore__ void fill(GM_ADDR from, GM_ADDR to) {
  const Arguments g{from, to};
  AscendC::GlobalTensor<float> tensor;
  tensor.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(g.to));
  Times(8, [&](int i) __aicore__ { tensor.SetValue(i, 1.0f); });
}
"""


def test_a_right_kernel():
    errors, functions, unmarked = analyse(RIGHT)
    assert (errors, len(functions), unmarked) == ([], 3, [])


@pytest.mark.parametrize(
    ("right", "wrong", "error"),
    [
        # The macro GM_ADDR is `__gm__ uint8_t*`: `to` is a byte.
        ("GM_ADDR from;\n  GM_ADDR to;", "GM_ADDR from, to;", "3: field may not be qualified"),
        ("reinterpret_cast<__gm__ float*>", "reinterpret_cast<float*>", "13: reinterpret_cast"),
        ("fill(GM_ADDR from", "fill(uint8_t* from", "11: cannot initialize"),
    ],
)
def test_errors_of_pointers(right, wrong, error):
    assert RIGHT.count(right) == 1
    errors, _, unmarked = analyse(RIGHT.replace(right, wrong))
    assert errors[0].startswith(f"ascendc/kernels.cc:{error}") and unmarked == []


@pytest.mark.parametrize(
    ("right", "wrong", "line"),
    [
        ("(int i) __aicore__ {", "(int i) {", 14),
        ("__aicore__ inline void Times", "inline void Times", 7),
        ("__global__ __aicore__ void fill", "__global__ void fill", 10),
    ],
)
def test_functions_without_the_mark(right, wrong, line):
    assert RIGHT.count(right) == 1
    errors, _, unmarked = analyse(RIGHT.replace(right, wrong))
    assert (errors, unmarked) == ([], [f"ascendc/kernels.cc:{line}"])
