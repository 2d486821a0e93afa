"""Programs on the twin: the documented one for aclnnNsaCompressGrad, and this project's own."""

import numpy as np
import pytest

from mindspore_nsa.reference import nsa_compress, nsa_compress_grad

from .programs import EXAMPLES, ROOT, build, flags, python, run

SEEDS = ROOT.parent / "shared" / "spec" / "seeds"
# The document is CANN's and not part of this repository; our own programs need no document.
documented = pytest.mark.skipif(
    not SEEDS.is_dir(), reason=f"CANN's document of aclnnNsaCompressGrad is not in {SEEDS}"
)


def pattern(shape, step, modulus):
    """As Pattern of acl_program.h."""
    numbers = np.arange(np.prod(shape)) * step % modulus - modulus // 2
    return (numbers / 8).astype(np.float16).reshape(shape)


def outputs(text):
    """{name: values} of what Print wrote."""
    lines = dict(line.split(":") for line in text.splitlines())
    return {name: np.array(values.split(), np.float64) for name, values in lines.items()}


INPUT, WEIGHT, SEGMENTS = pattern((80, 2, 16), 7, 19), pattern((32, 2), 5, 11), [32, 80]


def close(ours, reference):
    assert ours.size == reference.size
    scale = np.abs(reference).max()
    assert np.abs(ours - reference.ravel()).max() <= scale * 2.0**-10


@pytest.mark.parametrize("cores", ["1", "48"])
def test_nsa_compress(tmp_path_factory, cores):
    program = build(EXAMPLES / "aclnn_nsa_compress.cpp", tmp_path_factory.mktemp("program"))
    ours = outputs(run(program, MINDSPORE_NSA_TWIN_AIV=cores))
    close(ours["output"], nsa_compress(INPUT, WEIGHT, 32, 16, actual_seq_len=SEGMENTS))


def test_nsa_compress_grad(tmp_path):
    program = build(EXAMPLES / "aclnn_nsa_compress_grad.cpp", tmp_path)
    ours = outputs(run(program))
    output_grad = pattern((3, 2, 16), 3, 13)
    input_grad, weight_grad = nsa_compress_grad(
        output_grad, INPUT, WEIGHT, 32, 16, actual_seq_len=SEGMENTS
    )
    close(ours["inputGrad"], input_grad)
    close(ours["weightGrad"], weight_grad)


def test_every_operator_has_an_example():
    kernels = {path.parent.name for path in (ROOT / "ascendc").glob("*/op_kernel")}
    assert {path.stem for path in EXAMPLES.glob("*.cpp")} == {f"aclnn_{op}" for op in kernels}


def documented_example():
    """The one C++ program in the document of aclnnNsaCompressGrad."""
    (text,) = (
        path.read_text()
        for path in SEEDS.glob("004*.txt")
        if "aclnnNsaCompressGradGetWorkspaceSize" in path.read_text()
    )
    blocks = [block.partition("```")[0] for block in text.split("```c++")[1:]]
    (program,) = (block for block in blocks if "int main()" in block)
    return program


@documented
def test_documented_example(tmp_path):
    """Unmodified. It copies float bytes into float16 tensors: what counts is what those hold."""
    source = tmp_path / "example.cpp"
    source.write_text(documented_example())
    lines = run(build(source, tmp_path)).splitlines()
    ours = np.array([float(line.rpartition(" ")[2]) for line in lines], np.float32)
    shape, heads = (272, 64, 128), 64

    def as_half(count):
        return np.ones(count, np.float32).view(np.float16)[:count]

    input_grad, _ = nsa_compress_grad(
        as_half(15 * heads * 128).reshape(15, heads, 128),
        as_half(np.prod(shape)).reshape(shape),
        as_half(32 * heads).reshape(32, heads),
        32,
        16,
        actual_seq_len=[0, 128, 272],
    )
    # The second half of the memory, where the example's float zeros were, is not the tensor's.
    halves = ours.view(np.float16)
    assert halves.size == 2 * input_grad.size
    assert np.array_equal(halves[: input_grad.size], input_grad.ravel().astype(np.float16))
    assert not halves[input_grad.size :].any()
    assert input_grad.any()


def test_flags():
    assert all(flag.startswith("-I") for flag in flags("--cflags"))
    libs = flags("--libs")
    assert [flag[:2] for flag in libs] == ["-L", "-l", "-W"]
    assert flags("--cflags", "--libs") == flags("--cflags") + libs
    done = python("-m", "mindspore_nsa.twin")
    assert done.returncode == 2 and "--cflags, --libs or both" in done.stderr


def test_flags_do_not_import_mindspore():
    code = (
        "import sys, runpy; sys.argv = ['twin', '--cflags', '--libs']\n"
        "runpy.run_module('mindspore_nsa.twin', run_name='__main__')\n"
        "assert not [name for name in sys.modules if name.partition('.')[0] == 'mindspore']"
    )
    done = python("-c", code)
    assert done.returncode == 0, done.stderr
