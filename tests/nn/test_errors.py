"""Bad input is refused in words that name the layer, the argument, what was expected and got."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

import mindspore_nsa
from mindspore_nsa.nn import DenseAttention, NativeSparseAttention
from tests.ops.calls import Function, context_mode

from .cells import build, config, filled, tokens

SETTINGS = config()
NAMES = {"sparse": "NativeSparseAttention", "dense": "DenseAttention"}
PACKED = Tensor(np.zeros((8, 12), np.float32))


def seq(*values, dtype=ms.int64):
    return Tensor(values, dtype)


CASES = {
    "no tensor": ((3,), TypeError, "x must be a Tensor, got 3 .int."),
    "dtype": ((Tensor(np.zeros((8, 12))), (8,)), TypeError,
              "x must be of dtype float16, bfloat16 or float32, got float64"),
    "integers": ((Tensor(np.zeros((8, 12), np.int32)), (8,)), TypeError,
                 "x must be of dtype float16, bfloat16 or float32, got int32"),
    "rank": ((Tensor(np.zeros((1, 1, 8, 12), np.float32)),), ValueError,
             r"x must be of shape \[B, S, 12\] or \[T, 12\], got \(1, 1, 8, 12\)"),
    "hidden size": ((Tensor(np.zeros((2, 8, 10), np.float32)),), ValueError,
                    r"x must be of shape \[B, S, 12\] or \[T, 12\], got \(2, 8, 10\)"),
    "no token": ((Tensor(np.zeros((0, 12), np.float32)), (0,)), ValueError,
                 r"x must hold at least one token, got shape \(0, 12\)"),
    "no row": ((Tensor(np.zeros((0, 5, 12), np.float32)),), ValueError,
               r"x must hold at least one token, got shape \(0, 5, 12\)"),
    "no list": ((PACKED,), ValueError,
                r"actual_seq_len must be given for packed x of shape \(8, 12\), got None"),
    "list of a batch": ((Tensor(np.zeros((2, 4, 12), np.float32)), (4, 8)), ValueError,
                        r"actual_seq_len must be None for x of shape \[B, S, hidden\]"),
    "mask by position": ((Tensor(np.zeros((2, 4, 12), np.float32)), Tensor(np.ones((4, 4), bool))),
                         ValueError,
                         "actual_seq_len must be None for .*; a mask of padding is given by name, "
                         "key_padding_mask=mask"),
    "end of array": ((PACKED, np.array([4, 9])), ValueError,
                     "the last value of the prefix sums actual_seq_len must be the 8 tokens of x, "
                     "got 9"),
    "type of list": ((PACKED, 8), TypeError,
                     r"actual_seq_len must be a tuple or list of ints or a Tensor, got 8 \(int\)"),
    "empty list": ((PACKED, ()), ValueError, "actual_seq_len must not be empty"),
    "empty Tensor": ((PACKED, Tensor(np.zeros(0, np.int64))), ValueError,
                     "actual_seq_len must not be empty"),
    "float in list": ((PACKED, (4.0, 8)), TypeError,
                      r"actual_seq_len must hold ints, got 4.0 \(float\) at index 0"),
    "bool in list": ((PACKED, (True, 8)), TypeError,
                     r"actual_seq_len must hold ints, got True \(bool\) at index 0"),
    "falling list": ((PACKED, (5, 4, 8)), ValueError,
                     r"actual_seq_len must be non-negative and not decrease \(prefix sums\), got 4 "
                     "after 5 at index 1"),
    "negative list": ((PACKED, (-1, 8)), ValueError,
                      r"actual_seq_len must be non-negative and not decrease \(prefix sums\), got "
                      "-1 after 0 at index 0"),
    "end of list": ((PACKED, (4, 9)), ValueError,
                    "the last value of the prefix sums actual_seq_len must be the 8 tokens of x, "
                    "got 9"),
    "dtype of list": ((PACKED, seq(8, dtype=ms.float32)), TypeError,
                      "actual_seq_len must be of dtype int64 or int32, got float32"),
    "rank of list": ((PACKED, Tensor([[8]], ms.int64)), ValueError,
                     r"actual_seq_len must be of rank 1, got shape \(1, 1\)"),
}  # fmt: skip
# Errors that only the values of a Tensor show: known at once in PyNative mode.
VALUES = {
    "falling Tensor": (
        seq(5, 4, 8),
        r"non-negative and not decrease \(prefix sums\), got 4 after 5 at index 1",
    ),
    "end of Tensor": (seq(4, 7), "must be the 8 tokens of x, got 7"),
}


@pytest.mark.parametrize(
    "kind, mode", [("sparse", "pynative"), ("sparse", "graph"), ("dense", "pynative")]
)
@pytest.mark.parametrize("case", CASES)
def test_refused(case, kind, mode):
    arguments, error, text = CASES[case]
    if mode == "graph" and case == "no tensor":
        text = "x must be a Tensor, got "
    layer = build(kind, SETTINGS)
    with context_mode(mode), pytest.raises(error, match=f"{NAMES[kind]}: {text}"):
        layer(*arguments)


@pytest.mark.parametrize("case", VALUES)
def test_refused_values(case):
    values, text = VALUES[case]
    layer = build("sparse", SETTINGS)
    with pytest.raises(ValueError, match=f"NativeSparseAttention: .*{text}"):
        layer(PACKED, values)


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("case", VALUES)
def test_refused_values_in_a_graph(case, kind):
    """In terms of the layer where the graph runs; a layer that is called itself says it before."""
    layer = build(kind, SETTINGS)
    values, text = VALUES[case]
    text = f"{NAMES[kind]}: .*actual_seq_len must be .*{text.removeprefix('must be ')}"
    with context_mode("graph"):
        with pytest.raises(RuntimeError, match=f"{text}; MindSpore does not run this graph again"):
            Function(layer)(PACKED, values).asnumpy()
        with pytest.raises(ValueError, match=text):
            layer(PACKED, values)


def test_refused_values_in_a_graph_with_a_cache():
    layer = build("sparse", SETTINGS)

    class Step(ms.nn.Cell):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def construct(self, x, ends, cache):
            return self.layer(x, ends, cache=cache)

    with context_mode("graph"), pytest.raises(RuntimeError, match="NativeSparseAttention: .*got 7"):
        Step()(PACKED, seq(4, 7), layer.new_cache(2, 16)).asnumpy()


@pytest.mark.parametrize(
    "kind, known, shape",
    [("sparse", [None, 12], (0, 12)), ("dense", [None, None, 12], (0, 5, 12))],
)
def test_no_token_in_a_graph_of_any_length(kind, known, shape):
    """It is an error where MindSpore's kernels would end the process."""
    layer = build(kind, SETTINGS)
    lists = (Tensor([0], ms.int64),) if len(shape) == 2 else ()
    net, x = Function(layer), Tensor(np.zeros(shape, np.float32))
    net.set_inputs(Tensor(shape=known, dtype=ms.float32), *lists)
    with context_mode("graph"):
        with pytest.raises(RuntimeError, match=r"in the range \[0, 0\)"):
            net(x, *lists).asnumpy()
        with pytest.raises(ValueError, match="x must hold at least one token"):
            layer(x, *lists)


def test_unknown_rank():
    layer = build("sparse", SETTINGS)
    layer.set_inputs(Tensor(shape=None, dtype=ms.float32))
    text = r"NativeSparseAttention: x must be of known rank, \[B, S, 12\] or \[T, 12\]"
    with context_mode("graph"), pytest.raises(ValueError, match=text):
        layer(Tensor(np.zeros((1, 8, 12), np.float32)))


@pytest.mark.parametrize("cell", [NativeSparseAttention, DenseAttention])
def test_refused_config(cell):
    text = f"^{cell.__name__}: config must be an NSAConfig, got 64 .int.$"
    with pytest.raises(TypeError, match=text):
        cell(64)


def test_refused_window():
    with pytest.raises(TypeError, match="^DenseAttention: window must be a bool, got 512 .int.$"):
        DenseAttention(SETTINGS, 512)


@pytest.mark.parametrize("mode", ["pynative", "graph"])
@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_names_of_arguments(kind, mode):
    """A wrong one is named with the layer, and with what may have been meant."""
    layer, _ = filled(kind, config())
    x = Tensor(tokens(config(), 20)[None])
    mask = ms.ops.ones((1, 20), ms.int32)
    with context_mode(mode):
        with pytest.raises(TypeError, match="Attention: attn_mask is not .*key_padding_mask is"):
            layer(x, attn_mask=mask)
        with pytest.raises(TypeError, match="actual_seqlen is not .*did you mean actual_seq_len"):
            layer(x[0], actual_seqlen=(20,))
        with pytest.raises(TypeError, match="of dtype bool, .*got int32; .* it is mask == 0"):
            layer(x, key_padding_mask=mask)


@pytest.mark.parametrize("mode", ["pynative", "graph"])
def test_float32_on_the_twin(mode):
    """The layer refuses what one of its operators would, in words of its own."""
    layer, x = build("sparse", config()), Tensor(tokens(config(), 20))
    text = "NativeSparseAttention: x must be of dtype float16 or bfloat16 on Ascend, .*got float32"
    with mindspore_nsa.target("ascend_twin"), context_mode(mode):
        with pytest.raises(TypeError, match=text):
            layer(x, (20,))
