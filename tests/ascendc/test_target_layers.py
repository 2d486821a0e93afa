"""The layers on target ascend_twin: outputs and every gradient, beside those of target cpu.

The error of target cpu against the float64 definition is what the roundings of a dtype explain; the
other kernels may err twice as much. Which blocks a query reads is a choice that rounding may turn,
so the definition is given the blocks that the layer chose.
"""

import functools
import importlib
import re
from dataclasses import replace
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn, ops

import mindspore_nsa
from mindspore_nsa import _native
from mindspore_nsa.ops import _ascend, _layer, _plan
from mindspore_nsa.ops._gradient import gradient_operator
from mindspore_nsa.testing.dtypes import ULP
from mindspore_nsa.testing.tolerance import error
from tests.nn.cells import build, config, differentiated, filled, refer, to_numpy, tokens
from tests.ops.calls import context_mode

definition = importlib.import_module("mindspore_nsa.reference.native_sparse_attention")
compress_attention = definition.nsa_compress_attention
SETTINGS = config(
    hidden_size=32,
    head_dim=32,
    value_head_dim=16,
    compress_block_size=32,
    compress_stride=16,
    select_block_size=32,
    window_size=24,
    has_bias=True,
)
# Optional features of a layer between its operators.
OPTIONS = {"qk_norm": True, "rope_pairs": "interleaved", "gating": "residual", "shared_kv": True}
LAYERS = {kind: (kind, SETTINGS) for kind in ("sparse", "dense", "window")}
LAYERS["options"] = "sparse", replace(SETTINGS, **OPTIONS)
# Documents of every kind: empty, shorter than a window, with more blocks than a query reads.
ENDS = (0, 41, 44, 44, 180)
OPERATORS = (
    "nsa_compress nsa_compress_attention nsa_selected_attention flash_attention_score".split()
)
MODES = ("pynative", "graph", "graph, Tensor lists")
HALVES = ("float16", "bfloat16")


def data(dtype, seed):
    return Tensor(tokens(SETTINGS, ENDS[-1], seed)).astype(getattr(ms, dtype))


@functools.cache
def computed(kind, dtype, target, mode):
    """(output, gradient of x, gradients by name) of one layer, and the blocks that it chooses."""
    layer, _ = filled(*LAYERS[kind])
    x, upstream = data(dtype, 1), data("float32", 2)
    seq = Tensor(ENDS, ms.int64) if "Tensor" in mode else ENDS
    with mindspore_nsa.target(target):
        with context_mode(mode.partition(",")[0]):
            results = differentiated(layer)(x, seq, upstream)
        blocks = layer.selected_blocks(x, ENDS).asnumpy() if layer.sparse else None
    return results, blocks


def named(results):
    """Every tensor of a result by name."""
    out, dx, grads = results
    return {"output": out, "x": dx, **grads}


def errors(kind, dtype, monkeypatch, results, blocks):
    """e of every tensor against the definition, which reads the blocks given."""

    def chosen(*arguments, **options):
        out, _, row_max, row_sum = compress_attention(*arguments, **options)
        return out, blocks, row_max, row_sum

    monkeypatch.setattr(definition, "nsa_compress_attention", chosen)
    kind, settings = LAYERS[kind]
    _, parameters = filled(kind, settings)
    x, upstream = to_numpy(data(dtype, 1)), to_numpy(data("float32", 2))
    expected = named(refer(kind, x, parameters, settings, ENDS, upstream))
    ours = named(results)
    assert ours.keys() == expected.keys() and all(x.any() for x in expected.values())
    return {name: error(ours[name].reshape(e.shape), e) for name, e in expected.items()}


EXACT = [
    *(("sparse", mode, dtype) for mode in MODES for dtype in HALVES),
    *(("dense", mode, dtype) for mode in MODES[:2] for dtype in HALVES),
]
# Graphs take long to compile: each with one of the dtypes, with make soak with both.
SOAKED = {
    ("sparse", MODES[1], "bfloat16"),
    ("sparse", MODES[2], "float16"),
    ("dense", MODES[1], "float16"),
}


@pytest.mark.parametrize(
    "kind, mode, dtype",
    [pytest.param(*case, marks=pytest.mark.soak if case in SOAKED else ()) for case in EXACT],
)
def test_as_exact_as_target_cpu(kind, mode, dtype, monkeypatch):
    results, blocks = computed(kind, dtype, "ascend_twin", mode)
    got = errors(kind, dtype, monkeypatch, results, blocks)
    cpu, its_blocks = computed(kind, dtype, "cpu", "pynative")
    allowed = errors(kind, dtype, monkeypatch, cpu, its_blocks)
    wrong = {
        name: f"{e:.2e}, on target cpu {allowed[name]:.2e}"
        for name, e in got.items()
        if not e <= max(2 * allowed[name], ULP[dtype])
    }
    assert not wrong
    assert all(e > 0 for e in got.values())  # it is float64 that they are compared with
    if kind == "sparse":
        assert (blocks == its_blocks).all(-1).mean() > 0.95
    # Other kernels have computed it: rounding alone gives them away.
    assert any((a != b).any() for a, b in zip(named(results).values(), named(cpu).values()))


def test_dense_attention_in_float32(monkeypatch):
    """Its operator is the one that takes float32 on Ascend."""
    computed_there = computed("window", "float32", "ascend_twin", "pynative")
    got = errors("window", "float32", monkeypatch, *computed_there)
    assert max(got.values()) <= 1e-5


def test_sparse_attention_in_float32():
    layer = build("sparse", SETTINGS)
    with mindspore_nsa.target("ascend_twin"):
        with pytest.raises(TypeError, match="NativeSparseAttention: x must be of dtype float16"):
            layer(data("float32", 1), ENDS)


@pytest.mark.parametrize("count", [1, 17, 33])
def test_short_batches(count):
    """Rows without a window, without a second one, and with a part of a block."""
    layer, _ = filled("sparse", SETTINGS)
    x = Tensor(tokens(SETTINGS, 2 * count).reshape(2, count, -1)).astype(ms.float16)

    def energy(x):
        return ops.square(ops.cast(layer(x), ms.float32)).sum()

    slope = ms.value_and_grad(energy)
    expected = [to_numpy(y) for y in slope(x)]
    with mindspore_nsa.target("ascend_twin"):
        ours = [to_numpy(y) for y in slope(x)]
    for a, b in zip(ours, expected, strict=True):
        assert np.abs(a - b).max() <= 4 * ULP["float16"] * np.abs(b).max()


class Gradient(nn.Cell):
    """The gradient of a layer."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer
        self.gradient = ms.ops.GradOperation()

    def construct(self, x):
        return self.gradient(self.layer)(x, ENDS)


@pytest.fixture
def planned_for_ascend(cann, monkeypatch):  # noqa: F811
    """MindSpore tells the package that the device is Ascend; its compiler knows no such device."""
    real_context, make = ms.context.get_context, _ascend.AclnnCustom.__init__

    def get_context(key):
        return "Ascend" if key == "device_target" else real_context(key)

    def init(*arguments):
        with monkeypatch.context() as patch:
            patch.setattr(ms.context, "get_context", get_context)
            make(*arguments)

    monkeypatch.setattr(_plan, "resolve_target", lambda requested, device: "ascend")
    monkeypatch.setattr(_ascend.AclnnCustom, "__init__", init)
    monkeypatch.setattr(ms.ops.Custom, "compiled_bin", [])
    forget()
    yield
    forget()


def forget():
    """Forget plans and operators that were made for another target."""
    for name in OPERATORS:
        module = importlib.import_module(f"mindspore_nsa.ops.{name}")
        module._operator.cache_clear()
        getattr(module, f"_plan_{name}").forget()
    gradient_operator.cache_clear()
    for planner in (_layer._plan_split_heads, _layer._plan_mix_branches, _layer._plan_round):
        planner.forget()


@pytest.mark.parametrize(
    "kind, operators",
    [
        ("dense", ["FlashAttentionScore"]),
        ("sparse", ["FlashAttentionScore", "NsaCompress", "NsaSelectedAttention"]),
    ],
)
def test_graph_on_ascend(planned_for_ascend, tmp_path, kind, operators):
    """The file calls this package by functions of CANN's package alone, forward and backward."""
    file = tmp_path / "net.mindir"
    net = Gradient(build(kind, SETTINGS))
    ms.export(net, data("float16", 1), file_name=str(file), file_format="MINDIR")
    types = [_native.ascend_type(name + part) for name in operators for part in ("", "Grad")]
    expected = {f"aclnn{name}" for name in types}
    if kind == "sparse":
        expected.add("aclnnMsnsaCompressAttention")  # whose gradient is the dense one's
    library = Path(_native.__file__).name.encode()
    found = re.findall(re.escape(library) + rb":(\w+?)_*\b", file.read_bytes())
    assert {name.decode() for name in found} == expected
