"""Faults planted in copies of the kernels: the twin or the comparison has to find each."""

import pytest

from tests.common.cases import compare
from twin.tests.builds import ROOT

from .builds import changed, compress_sources
from .compress_cases import make_case
from .launch import TwinError
from .runner import Runner

KERNEL = "ascendc/nsa_compress/op_kernel/nsa_compress_kernel.h"
GRAD = "ascendc/nsa_compress_grad/op_kernel/nsa_compress_grad_kernel.h"
ENTRY = "ascendc/nsa_compress_grad/op_kernel/nsa_compress_grad.cpp"
SUM = "ascendc/compress/sum_rows.h"

# name: (operator, file, what is replaced, by what, error, part of its message)
FAULTS = {
    "barrier": (
        "NsaCompress",
        SUM,
        "    AscendC::PipeBarrier<PIPE_V>();\n",
        "",
        TwinError,
        "hazard",
    ),
    "sync": ("NsaCompressGrad", ENTRY, "  AscendC::SyncAll();\n", "", TwinError, "workspace"),
    "ring": (
        *("NsaCompressGrad", GRAD, "window % open_rows_ * columns"),
        *("window % Max(1, open_rows_ - 1) * columns", TwinError, "hazard, write after write"),
    ),
    "saturation": (
        *("NsaCompress", "ascendc/common/keep_nan.h"),
        *("    AscendC::PipeBarrier<PIPE_ALL>();\n", "", TwinError, "CTRL"),
    ),
    "free": ("NsaCompress", KERNEL, "    steps_in_.FreeTensor(x);\n", "", TwinError, "deadlock"),
    "token": (
        *("NsaCompress", KERNEL, "input_[OffsetOf(*t_, step.token, step.tile)]"),
        *("input_[OffsetOf(*t_, step.token + 1, step.tile)]", TwinError, "out of bounds"),
    ),
    "clear": (
        *("NsaCompressGrad", GRAD, "    ClearUncoveredTokens();\n", ""),
        *(AssertionError, "never written"),
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_caught(tmp_path, name):
    op, file, old, new, error, message = FAULTS[name]
    text = (ROOT / file).read_text()
    assert text.count(old) == 1, f"{old!r} is in {file} {text.count(old)} times"
    sources = compress_sources()
    library = changed(sources, "nsa_compress", tmp_path, file, text.replace(old, new))
    faulty = Runner(library)
    with pytest.raises(error, match=message):
        for seed in range(16 if name == "ring" else 40):
            case = make_case(op, seed)
            compare(case, faulty.run(case, 7, seed)[0])
