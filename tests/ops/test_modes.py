"""Every operator in every mode and dtype: the same bits everywhere, and right."""

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

import mindspore_nsa
from mindspore_nsa import _config, nsa_compress
from mindspore_nsa.testing.dtypes import DTYPES
from tests.common.cases import GENERATORS, compare, make_case

from .calls import MODES, PublicCall, context_mode, in_mode
from .operators import arguments, draw, seeded, sequence


def bits(outputs):
    return [x[1].tobytes() if isinstance(x, tuple) else x.tobytes() for x in outputs]


def modes_by_turns():
    """Every operator and dtype in PyNative mode and in two others, so that each is in all of them
    with some dtype; with make soak each in all."""
    for i, op in enumerate(GENERATORS):
        for j, dtype in enumerate(DTYPES):
            first = 2 * (i + j) % 4
            yield pytest.param(op, dtype, MODES[1:][first : first + 2], id=f"{op}-{dtype}")
            others = [mode for k, mode in enumerate(MODES[1:]) if k // 2 != first // 2]
            yield pytest.param(
                *(op, dtype, others), id=f"{op}-{dtype}-others", marks=pytest.mark.soak
            )


@pytest.mark.parametrize("op, dtype, modes", list(modes_by_turns()))
def test_same_bits_in_every_mode(op, dtype, modes):
    """PyNative is compared with the reference, the other modes with PyNative."""
    call = PublicCall(make_case(1000, op, dtype), lists_as_tensors=dtype == "float32")
    case, expected = call.run("pynative")
    compare(case, expected)
    for mode in modes:
        assert bits(call.run(mode)[1]) == bits(expected), mode


def by_module(x, w):
    return mindspore_nsa.nsa_compress(x, w, 16, 8, actual_seq_len=(40, 96))


def by_name(x, w):
    return nsa_compress(x, w, 16, 8, actual_seq_len=[40, 96])


@pytest.mark.parametrize("mode", MODES)
def test_either_import_is_understood(mode):
    given = arguments("nsa_compress")
    x, w = given["input"], given["weight"]
    with context_mode(mode):
        first = in_mode(mode, by_module)(x, w).asnumpy()
        second = in_mode(mode, by_name)(x, w).asnumpy()
    assert np.array_equal(first, second) and first.any()


def test_parameters_are_tensors():
    """A Parameter has another abstract type in a graph than a Tensor."""
    net = seeded()
    x, seq = draw(96, 32), sequence(40, 96)
    eager = net(x, seq).asnumpy()
    with context_mode("graph"):
        assert np.array_equal(seeded()(x, seq).asnumpy(), eager)


def test_numpy_numbers_are_numbers():
    given = arguments("nsa_compress")
    expected = mindspore_nsa.nsa_compress(**given).asnumpy()
    given["compress_stride"] = np.int64(8)
    for ends in (np.array([40, 96]), tuple(np.array([40, 96]))):
        given["actual_seq_len"] = ends
        assert np.array_equal(mindspore_nsa.nsa_compress(**given).asnumpy(), expected)
    masks = [mindspore_nsa.dropout_mask(0.5, 64, seed).asnumpy() for seed in (3, np.int64(3))]
    assert np.array_equal(*masks)
    mindspore_nsa.flash_attention_score(
        **arguments("flash_attention_score"), inner_precise=np.int32(1)
    )


def test_strided_inputs():
    """Views are made contiguous before a kernel sees them."""
    wide = draw(96, 2, 32)
    given = arguments("nsa_compress")
    given["input"] = wide[:, :, ::2]
    expected = {**given, "input": Tensor(np.ascontiguousarray(wide.asnumpy()[:, :, ::2]))}
    ours = mindspore_nsa.nsa_compress(**given).asnumpy()
    assert np.array_equal(ours, mindspore_nsa.nsa_compress(**expected).asnumpy())


def test_target_is_captured_at_compilation(monkeypatch):
    """A compiled graph keeps its target; a new call asks again."""
    function = ms.jit(by_module)
    given = arguments("nsa_compress")
    x, w = given["input"], given["weight"]
    expected = function(x, w).asnumpy()
    monkeypatch.setattr(_config._State, "name", "ascend")
    assert np.array_equal(function(x, w).asnumpy(), expected)
    with pytest.raises(RuntimeError, match="target 'ascend' needs device_target Ascend, got 'CPU'"):
        by_module(x, w)


def another_call(x, w):
    """A call that no other test has compiled."""
    return mindspore_nsa.nsa_compress(x, w, 16, 8, actual_seq_len=(41, 96))


def test_set_target(monkeypatch):
    with mindspore_nsa.target("cpu"):
        by_module(arguments("nsa_compress")["input"], arguments("nsa_compress")["weight"])
    for name in ("ascend", "ascend_twin"):
        with mindspore_nsa.target(name):
            assert _config.requested_target() == name
        assert _config.requested_target() is None
    with pytest.raises(InterruptedError), mindspore_nsa.target("ascend_twin"):
        raise InterruptedError
    assert _config.requested_target() is None
    monkeypatch.setattr(_config._State, "name", None)
    mindspore_nsa.set_target("ascend_twin")
    with mindspore_nsa.target("cpu"):
        assert _config.requested_target() == "cpu"
    assert _config.requested_target() == "ascend_twin"
    with pytest.raises(ValueError, match="set_target: name must be one of cpu, ascend"):
        mindspore_nsa.set_target("gpu")
    with pytest.raises(TypeError, match="set_target: name must be a str, got 3"):
        mindspore_nsa.set_target(3)
    mindspore_nsa.set_target(None)
    assert _config.requested_target() is None
    with mindspore_nsa.target("cpu"), mindspore_nsa.target(None):
        assert _config.requested_target() is None


def test_a_graph_that_keeps_its_target_is_told_of_once(monkeypatch):
    monkeypatch.setattr(_config._State, "compiled", set())
    monkeypatch.setattr(_config._State, "warned", False)
    monkeypatch.setattr(_config._State, "name", None)
    given = arguments("nsa_compress")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with mindspore_nsa.target("ascend_twin"):
            pass  # Nothing has been compiled.
        function = ms.jit(another_call)
        function(given["input"], given["weight"]).asnumpy()
        mindspore_nsa.set_target("cpu")
        mindspore_nsa.set_target(None)
    text = "graphs that were compiled for target 'cpu' keep it: compile_cache.clear.. of the Cell"
    with pytest.warns(UserWarning, match=text) as told:
        with mindspore_nsa.target("ascend_twin"):
            pass
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mindspore_nsa.set_target("ascend_twin")


def test_other_devices_are_refused():
    with pytest.raises(RuntimeError, match="CPU or Ascend, got 'GPU'"):
        _config.resolve_target(None, "GPU")
    with pytest.raises(RuntimeError, match="target 'cpu' needs device_target CPU, got 'Ascend'"):
        _config.resolve_target("cpu", "Ascend")


def run_python(code, **environment):
    # Not all of sys.path: MindSpore's rewriting appends its own folders, which hide Python's.
    package = str(Path(mindspore_nsa.__file__).parents[1])
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": package, **environment},
        capture_output=True,
        text=True,
    )


def test_target_from_the_environment():
    done = run_python("import mindspore_nsa", MINDSPORE_NSA_TARGET="gpu")
    assert done.returncode != 0
    assert "MINDSPORE_NSA_TARGET: name must be one of cpu, ascend, ascend_twin" in done.stderr
    code = "import mindspore_nsa; mindspore_nsa.show_config()"
    done = run_python(code, MINDSPORE_NSA_TARGET="cpu", MINDSPORE_NSA_ISA="scalar")
    assert done.returncode == 0, done.stderr
    lines = dict(line.split(maxsplit=1) for line in done.stdout.splitlines() if " " in line)
    assert lines["target"] == "cpu"
    assert "scalar (available:" in done.stdout
    assert f"mindspore {ms.__version__}" in " ".join(done.stdout.split())


def test_show_config_says_which_target_is_in_force(capsys):
    mindspore_nsa.show_config()
    assert "cpu, by device_target CPU" in capsys.readouterr().out
    with mindspore_nsa.target("ascend_twin"):
        mindspore_nsa.show_config()
    assert re.search(r"^target +ascend_twin$", capsys.readouterr().out, re.MULTILINE)


def test_unknown_instruction_set():
    """Told when the operators are loaded, before any kernel runs."""
    done = run_python("import mindspore_nsa.ops", MINDSPORE_NSA_ISA="sse")
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ValueError: MINDSPORE_NSA_ISA: instruction set must be one of ")
    assert last.endswith("scalar on this machine, got sse")


def test_instruction_set_that_is_no_text():
    """A byte that is no UTF-8 shows as its number."""
    done = run_python("import mindspore_nsa.ops", MINDSPORE_NSA_ISA=os.fsdecode(b"avx\xff"))
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ValueError: MINDSPORE_NSA_ISA") and last.endswith("got avx\\xff"), last


def test_import_does_not_import_mindspore():
    code = (
        "import sys, mindspore_nsa, mindspore_nsa.reference, mindspore_nsa._native\n"
        "assert 'mindspore' not in sys.modules\n"
        "mindspore_nsa.show_config()\n"
        "assert 'mindspore' not in sys.modules\n"
        "mindspore_nsa.nsa_compress\n"
        "assert 'mindspore' in sys.modules\n"
        "assert set(mindspore_nsa.__all__) <= set(dir(mindspore_nsa))\n"
    )
    done = run_python(code)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "version, warned", [("2.7.0", True), ("2.7.1", False), ("2.10.3", False), ("2.11.0", True)]
)
def test_untested_mindspore_warns(monkeypatch, recwarn, version, warned):
    from mindspore_nsa.ops._environment import check_environment

    monkeypatch.setattr(ms, "__version__", version)
    check_environment()
    texts = [str(w.message) for w in recwarn if "mindspore_nsa is made for" in str(w.message)]
    assert bool(texts) == warned
    assert all(version in text for text in texts)


def test_layout_of_custom_operators():
    """The installed MindSpore has it, and the native library's own declaration is the same."""
    from mindspore_nsa.ops import _environment

    root = Path(__file__).resolve().parents[2]
    (header,) = Path(ms.__file__).parent.joinpath("include").rglob("custom_aot_extra.h")
    count = len(_environment.CUSTOM_CALLS)
    for text in (header.read_text(), (root / "binding" / "custom_extra.cc").read_text()):
        assert _environment.custom_calls(text)[:count] == _environment.CUSTOM_CALLS


@pytest.mark.parametrize(
    "text, got",
    [
        ("class AotExtra {\n virtual ~AotExtra();\n virtual bool Other(int);\n};\n", "Other"),
        ("class Another {\n};\n", "no such class"),
        (None, "no such class"),
    ],
)
def test_another_layout_of_custom_operators_is_refused(monkeypatch, tmp_path, text, got):
    from mindspore_nsa.ops._environment import check_environment

    (tmp_path / "include" / "deep").mkdir(parents=True)
    if text is not None:
        (tmp_path / "include" / "deep" / "custom_aot_extra.h").write_text(text)
    monkeypatch.setattr(ms, "__file__", str(tmp_path / "__init__.py"))
    check_environment()
    monkeypatch.setattr(ms, "__version__", "2.11.0")
    with pytest.raises(ImportError, match=f"MindSpore 2.11.0 has another interface.*got .*{got}"):
        check_environment()


def test_numpy_2_is_refused(monkeypatch):
    from mindspore_nsa.ops._environment import check_environment

    monkeypatch.setattr(np, "__version__", "2.1.0")
    with pytest.raises(ImportError, match="needs numpy<2.*got numpy 2.1.0"):
        check_environment()
