"""Programs on the twin: the documented one for aclnnNsaCompressGrad, and this project's own."""

import pytest

from .examples import (
    check_documented_example,
    check_flash_attention_score,
    check_flash_attention_score_grad,
    check_nsa_cache_step,
    check_nsa_compress,
    check_nsa_compress_attention,
    check_nsa_compress_attention_infer,
    check_nsa_compress_grad,
    check_nsa_compress_with_cache,
    check_nsa_decode,
    check_nsa_selected_attention,
    check_nsa_selected_attention_grad,
    check_nsa_selected_attention_infer,
    documented,
    documented_example,
)
from .programs import EXAMPLES, ROOT, build, flags, python, run


@pytest.mark.parametrize("cores", ["1", "48"])
def test_nsa_compress(tmp_path_factory, cores):
    program = build(EXAMPLES / "aclnn_nsa_compress.cpp", tmp_path_factory.mktemp("program"))
    check_nsa_compress(run(program, ASCENDC_TWIN_AIV=cores))


def test_nsa_compress_with_cache(tmp_path):
    program = build(EXAMPLES / "aclnn_nsa_compress_with_cache.cpp", tmp_path)
    check_nsa_compress_with_cache(run(program))


def test_nsa_compress_grad(tmp_path):
    program = build(EXAMPLES / "aclnn_nsa_compress_grad.cpp", tmp_path)
    check_nsa_compress_grad(run(program))


@pytest.mark.parametrize("cores", ["1", "24"])
def test_nsa_compress_attention(tmp_path, cores):
    program = build(EXAMPLES / "aclnn_nsa_compress_attention.cpp", tmp_path)
    check_nsa_compress_attention(run(program, ASCENDC_TWIN_AIC=cores))


@pytest.mark.parametrize("cores", ["1", "24"])
def test_flash_attention_score(tmp_path, cores):
    program = build(EXAMPLES / "aclnn_flash_attention_score.cpp", tmp_path)
    check_flash_attention_score(run(program, ASCENDC_TWIN_AIC=cores))


@pytest.mark.parametrize("cores", ["1", "24"])
def test_flash_attention_score_grad(tmp_path, cores):
    program = build(EXAMPLES / "aclnn_flash_attention_score_grad.cpp", tmp_path)
    check_flash_attention_score_grad(run(program, ASCENDC_TWIN_AIC=cores))


@pytest.mark.parametrize("cores", ["1", "24"])
def test_nsa_selected_attention(tmp_path, cores):
    program = build(EXAMPLES / "aclnn_nsa_selected_attention.cpp", tmp_path)
    check_nsa_selected_attention(run(program, ASCENDC_TWIN_AIC=cores))


@pytest.mark.parametrize("cores", ["1", "24"])
def test_nsa_selected_attention_grad(tmp_path, cores):
    program = build(EXAMPLES / "aclnn_nsa_selected_attention_grad.cpp", tmp_path)
    check_nsa_selected_attention_grad(run(program, ASCENDC_TWIN_AIC=cores))


@pytest.mark.parametrize("cores", ["1", "24"])
def test_nsa_compress_attention_infer(tmp_path, cores):
    program = build(EXAMPLES / "aclnn_nsa_compress_attention_infer.cpp", tmp_path)
    check_nsa_compress_attention_infer(run(program, ASCENDC_TWIN_AIC=cores))


@pytest.mark.parametrize("cores", ["1", "24"])
def test_nsa_decode(tmp_path, cores):
    program = build(EXAMPLES / "aclnn_nsa_decode.cpp", tmp_path)
    check_nsa_decode(run(program, ASCENDC_TWIN_AIC=cores))


@pytest.mark.parametrize("cores", ["1", "24"])
def test_nsa_cache_step(tmp_path, cores):
    program = build(EXAMPLES / "aclnn_nsa_cache_step.cpp", tmp_path)
    check_nsa_cache_step(run(program, ASCENDC_TWIN_AIC=cores))


@pytest.mark.parametrize("cores", ["1", "24"])
def test_nsa_selected_attention_infer(tmp_path, cores):
    program = build(EXAMPLES / "aclnn_nsa_selected_attention_infer.cpp", tmp_path)
    check_nsa_selected_attention_infer(run(program, ASCENDC_TWIN_AIC=cores))


def test_every_operator_has_an_example():
    kernels = {path.parent.name for path in (ROOT / "ascendc").glob("*/op_kernel")}
    assert {path.stem for path in EXAMPLES.glob("*.cpp")} == {f"aclnn_{op}" for op in kernels}


@documented
def test_documented_example(tmp_path):
    """Unmodified."""
    source = tmp_path / "example.cpp"
    source.write_text(documented_example())
    check_documented_example(run(build(source, tmp_path)))


def test_flags():
    assert all(flag.startswith("-I") for flag in flags("--cflags"))
    libs = flags("--libs")
    assert [flag[:2] for flag in libs] == ["-L", "-l", "-W"] * 2
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
