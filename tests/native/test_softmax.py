"""The one state of the online softmax, of rows and of lanes, on every instruction set there is."""

import os
import subprocess

import pytest

from mindspore_nsa import _native

from .builds import ROOT

PROBE = ROOT / "tests" / "native" / "softmax_probe.cc"
AVX2 = ["-mavx2", "-mfma", "-mf16c"]
AVX512 = [*AVX2, "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl"]
UNITS = {
    "scalar": ["-DNSA_ISA_SCALAR"],
    "avx2": ["-DNSA_ISA_AVX2", *AVX2],
    "avx512": ["-DNSA_ISA_AVX512", *AVX512],
    "neon": ["-DNSA_ISA_NEON"],
}


def run(name, folder, source=PROBE):
    """The finished process of the probe for an instruction set."""
    program = folder / "probe"
    options = ["-std=c++17", "-O1", "-ffp-contract=off", "-fno-trapping-math", f"-I{ROOT}"]
    compiler = os.environ.get("CXX", "g++")
    subprocess.run([compiler, *options, *UNITS[name], source, "-o", program], check=True)
    return subprocess.run([program], capture_output=True, text=True)


@pytest.mark.parametrize("name", [name for name in UNITS if name in _native.available_isas()])
def test_state(name, tmp_path):
    done = run(name, tmp_path)
    assert done.returncode == 0, done.stdout


def test_the_probe_can_fail(tmp_path):
    """A state that forgets the factor of what came before is found."""
    header = (ROOT / "cpu/engine/step/online_softmax.h").read_text()
    right, wrong = "sum = fma(sum, factor, total);", "sum = fma(sum, set1(1.0f), total);"
    assert header.count(right) == 1
    (tmp_path / "online_softmax.h").write_text(header.replace(right, wrong))
    source = tmp_path / "probe.cc"
    include = '#include "cpu/engine/step/online_softmax.h"'
    planted = PROBE.read_text().replace(include, '#include "online_softmax.h"')
    source.write_text(planted)
    done = run("scalar", tmp_path, source)
    assert done.returncode == 1 and "sum of a lane" in done.stdout
