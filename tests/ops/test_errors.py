"""Bad arguments: the type of error and its text, the same in PyNative and in a static graph.

The rules themselves are tested in tests/infer; here it is shown that they arrive, for every
argument of every public function, whatever is wrong with it.
"""

import inspect
from collections import namedtuple
from enum import Enum, IntEnum

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn

import mindspore_nsa

from .calls import context_mode
from .operators import (
    N1,
    N2,
    OPERATORS,
    WITHOUT_GRADIENT,
    D,
    T,
    arguments,
    call,
    draw,
    indices,
    sequence,
)

EVERY = (*OPERATORS, *WITHOUT_GRADIENT)

INT = [("8", TypeError), (8.0, TypeError), (True, TypeError), (None, TypeError), ([8], TypeError)]
POSITIVE = [*INT, (0, ValueError), (-1, ValueError)]
FLOAT = [("1", TypeError), (None, TypeError), (True, TypeError), ((1.0,), TypeError)]
SCALE = [*FLOAT, (float("nan"), ValueError), (float("inf"), ValueError)]
FLAG = [("yes", TypeError), (1.0, TypeError), (None, TypeError), (2, ValueError)]
LIST = [
    ("ab", TypeError),
    (96, TypeError),
    ((40, 96.0), TypeError),
    ((True, 96), TypeError),
    (((40,), 96), TypeError),
    ([40, None], TypeError),
    (Tensor([40, 96], ms.float32), TypeError),
    (np.array([40.0, 96.0]), TypeError),
    ((), ValueError),
    ((40, 95), ValueError),
    ((50, 40, 96), ValueError),
    ((-1, 96), ValueError),
    (Tensor([[40, 96]], ms.int64), ValueError),
    (Tensor(96, ms.int64), ValueError),
    (Tensor([40, 95], ms.int64), ValueError),
    (Tensor([40, 95], ms.int32), ValueError),
]
REQUIRED_LIST = [*LIST, (None, TypeError)]
PAIRED_LIST = [*REQUIRED_LIST, ((96,), ValueError)]


def tensors(good):
    """Not a Tensor; wrong dtype, rank and shape of a good floating one."""
    shape = good.shape
    return [
        (None, TypeError),
        (3, TypeError),
        ("x", TypeError),
        ((good, good), TypeError),
        (good.asnumpy(), TypeError),
        (good.astype(ms.float64), TypeError),
        (good.astype(ms.int32), TypeError),
        (draw(*shape, 1), ValueError),
        (draw(*shape[:-1]), ValueError),
        (draw(*shape[:-1], shape[-1] + 1), ValueError),
    ]


def masks(rows, columns):
    return [
        ("x", TypeError),
        (draw(rows, columns), TypeError),
        (Tensor(np.zeros(rows, np.uint8)), ValueError),
        (Tensor(np.zeros((1, rows, columns), np.uint8)), ValueError),
    ]


def too_small(rows, columns):
    return [(Tensor(np.zeros((rows - 1, columns), np.bool_)), ValueError),
            (Tensor(np.zeros((rows, columns - 1), np.bool_)), ValueError)]  # fmt: skip


OFFSET = [
    ("ab", TypeError),
    (3, TypeError),
    ((0, 1.0), TypeError),
    ((0,), ValueError),
    ((0, -1), ValueError),
    (Tensor([0.0, 1.0]), TypeError),
    (Tensor([0, -1], ms.int64), ValueError),
]


def bad_arguments():
    """{operator: {argument: [(bad value, error)]}}"""
    compress = arguments("nsa_compress")
    attention = arguments("nsa_compress_attention")
    select = arguments("nsa_selected_attention")
    flash = arguments("flash_attention_score")
    indexer = arguments("block_indexer")
    given = [*INT[:3], INT[4], (0, ValueError), (-1, ValueError)]  # an int where it is given
    window = {"compress_block_size": POSITIVE, "compress_stride": POSITIVE}
    blocks = {"select_block_size": POSITIVE, "select_block_count": POSITIVE}
    heads = [*POSITIVE, (3, ValueError)]
    chosen = [
        (None, TypeError),
        (indices().astype(ms.int64), TypeError),
        (draw(T, N2, 3), TypeError),
        (Tensor(np.zeros((T, N2), np.int32)), ValueError),
        (Tensor(np.zeros((T, N2, 4), np.int32)), ValueError),
        (Tensor(np.zeros((T, N1, 3), np.int32)), ValueError),
    ]
    lower = Tensor(np.tri(56, dtype=np.bool_))
    nothing = Tensor(np.zeros((56, 56), np.bool_))
    return {
        "nsa_compress": {
            "input": tensors(compress["input"])[:-1] + [(draw(T, N2 + 1, D), ValueError)],
            "weight": tensors(compress["weight"]),
            **window,
            "actual_seq_len": REQUIRED_LIST,
            "num_windows": [("8", TypeError), (8.0, TypeError), (True, TypeError),
                            (9, ValueError), (-1, ValueError), (-2, ValueError)],
        },
        "nsa_compress_attention": {
            **{name: tensors(attention[name])[:-1] for name in ("query", "key", "value")},
            "scale_value": SCALE,
            "head_num": heads,
            **window,
            **blocks,
            "topk_mask": masks(56, 4) + too_small(56, 4),
            "atten_mask": masks(56, 6) + too_small(56, 6),
            "actual_seq_qlen": REQUIRED_LIST,
            "actual_cmp_seq_kvlen": LIST[:9] + [((4, 11), ValueError), ((10,), ValueError)],
            "actual_sel_seq_kvlen": LIST[:9] + [((7,), ValueError), ((3, -7), ValueError)],
            "causal": FLAG,
            "init_blocks": [*INT, (-1, ValueError), (4, ValueError)],
            "local_blocks": [*INT, (-1, ValueError), (4, ValueError)],
            "importance": [(3, TypeError), (None, TypeError), ("paper", ValueError)],
            "q_offset": OFFSET,
        },
        "nsa_selected_attention": {
            **{name: tensors(select[name])[:-1] for name in ("query", "key", "value")},
            "topk_indices": chosen,
            "scale_value": SCALE,
            "head_num": heads,
            **blocks,
            "atten_mask": [*masks(56, 56), (lower, ValueError), (nothing, ValueError),
                           (Tensor(np.zeros((1, 1, 56, 56), np.bool_)), ValueError),
                           (Tensor(np.True_), ValueError)],
            "actual_seq_qlen": PAIRED_LIST,
            "actual_seq_kvlen": PAIRED_LIST,
            "causal": FLAG,
            "q_offset": OFFSET,
        },
        "block_indexer": {
            **{name: tensors(indexer[name])[:-1] for name in ("query", "key")},
            "weights": tensors(indexer["weights"])[1:],
            "score": [(3, TypeError), (None, TypeError), ("sum", ValueError),
                      ("softmax_max", ValueError)],
            "block_size": POSITIVE,
            "block_count": POSITIVE,
            "head_groups": [*given, (3, ValueError), (4, ValueError)],
            "scale": SCALE,
            "init_blocks": [*INT, (-1, ValueError), (3, ValueError)],
            "local_blocks": [*INT, (-1, ValueError), (3, ValueError)],
            "compress_block_size": [*given, (16, ValueError)],
            "compress_stride": [*given, (8, ValueError)],
            "actual_seq_qlen": PAIRED_LIST,
            "actual_seq_kvlen": PAIRED_LIST,
            "q_offset": OFFSET,
        },
        "flash_attention_score": {
            **{name: tensors(flash[name])[:-1] for name in ("query", "key", "value")},
            "head_num": heads,
            "real_shift": [("x", TypeError), (draw(7).astype(ms.int32), TypeError),
                           (draw(7), ValueError), (draw(2, 3), ValueError)],
            "drop_mask": [("x", TypeError), (draw(9), TypeError),
                          (Tensor(np.ones(100, np.uint8)), ValueError)],
            "padding_mask": [(draw(3), ValueError), ("x", ValueError)],
            "attn_mask": masks(2048, 2048) + too_small(2048, 2048),
            "prefix": [("x", TypeError), (3, TypeError), ((3, 4.0), TypeError)],
            "actual_seq_qlen": [*LIST, ((96,), ValueError), (None, ValueError)],
            "actual_seq_kvlen": [*LIST, ((96,), ValueError), (None, ValueError)],
            "keep_prob": [*FLOAT, (0.0, ValueError), (1.1, ValueError), (0.9, ValueError)],
            "scalar_value": SCALE,
            "pre_tokens": INT,
            "next_tokens": INT,
            "inner_precise": [*INT, (5, ValueError), (-1, ValueError)],
            "input_layout": [(3, TypeError), (None, TypeError), ("BDSN", ValueError)],
            "sparse_mode": [*INT, (9, ValueError), (-1, ValueError), (1, ValueError),
                            (5, ValueError)],
            "pse_type": [*INT, (4, ValueError), (2, ValueError)],
            "q_start_idx": [("8", TypeError), (8.0, TypeError), (True, TypeError)],
            "kv_start_idx": [("8", TypeError), (8.0, TypeError), (True, TypeError)],
            "sink": tensors(flash["sink"])[1:-3] + [(draw(N1 + 1), ValueError)],
            "return_softmax": [("yes", TypeError), (2, TypeError), (None, TypeError)],
        },
    }  # fmt: skip


BAD = bad_arguments()
CASES = [(name, argument) for name in BAD for argument in BAD[name]]


class Call(nn.Cell):
    """A call whose arguments are all constants of the graph."""

    def __init__(self, operator, given):
        super().__init__()
        self.operator, self.given = operator, given

    def construct(self, x):
        return self.operator(**self.given)


def first_line(error):
    return str(error).strip().splitlines()[0]


def in_graph(name, given):
    with context_mode("graph"):
        Call(getattr(mindspore_nsa, name), given)(Tensor(1.0))


@pytest.mark.parametrize("name", EVERY)
def test_every_argument_is_covered(name):
    assert set(inspect.signature(getattr(mindspore_nsa, name)).parameters) == set(BAD[name])


@pytest.mark.parametrize("name, argument", CASES, ids=["-".join(case) for case in CASES])
def test_bad_argument(name, argument):
    operator, good = getattr(mindspore_nsa, name), arguments(name)
    operator(**good)
    for value, error in BAD[name][argument]:
        given = {**good, argument: value}
        with pytest.raises(error) as eager:
            operator(**given)
        text = first_line(eager.value)
        label = f"{argument}={value!r}: {text}"
        assert text.startswith(f"{name}: ") and " must " in text and ", got " in text, label
        assert len(text) < 400, label
        if isinstance(value, np.ndarray):
            continue  # a graph takes it for a Tensor
        with pytest.raises(error) as compiled:
            in_graph(name, given)
        assert first_line(compiled.value) == text, label


@pytest.mark.parametrize("name, argument", [case for case in CASES if case[1] in (
    "actual_seq_len", "actual_seq_qlen", "actual_seq_kvlen", "query", "input")])  # fmt: skip
def test_missing_argument(name, argument):
    """Errors of Python itself."""
    given = arguments(name)
    del given[argument]
    if name == "flash_attention_score" and argument != "query":
        with pytest.raises(ValueError, match=f"{argument} must be given with input_layout 'TND'"):
            mindspore_nsa.flash_attention_score(**given)
    else:
        with pytest.raises(TypeError, match=argument):
            getattr(mindspore_nsa, name)(**given)


class Compress(nn.Cell):
    def construct(self, x, w, seq):
        return mindspore_nsa.nsa_compress(x, w, 16, 8, actual_seq_len=seq)


def test_list_values_in_a_graph():
    """Known only when the graph runs: RuntimeError with the same sentence."""
    given = arguments("nsa_compress")
    x, w = given["input"], given["weight"]
    for values in ((40, 95), (50, 40, 96)):
        with pytest.raises(ValueError) as eager:
            Compress()(x, w, sequence(*values))
        with context_mode("graph"), pytest.raises(RuntimeError) as compiled:
            Compress()(x, w, sequence(*values)).asnumpy()
        assert str(eager.value) in str(compiled.value)


def test_shapes_known_at_run_time_only():
    given = arguments("nsa_compress")
    unknown = [Tensor(shape=None, dtype=d) for d in (ms.float32, ms.float32, ms.int64)]
    for x, w in (
        (draw(96, 2), given["weight"]),
        (given["input"], draw(15, N2)),
    ):
        with pytest.raises(ValueError) as eager:
            mindspore_nsa.nsa_compress(x, w, 16, 8, actual_seq_len=(40, 96))
        net = Compress()  # MindSpore does not run a graph again in which a kernel failed
        net.set_inputs(*unknown)
        with context_mode("graph"), pytest.raises(RuntimeError) as compiled:
            net(x, w, sequence(40, 96)).asnumpy()
        assert first_line(eager.value) in str(compiled.value)


def test_scalars_must_be_known_at_compile_time():
    given = arguments("nsa_compress")

    class Net(nn.Cell):
        def construct(self, x, w, stride):
            return mindspore_nsa.nsa_compress(x, w, 16, stride, actual_seq_len=(40, 96))

    with context_mode("graph"):
        unknown = r"got a value that is not known when the graph is compiled \(unknown\)$"
        with pytest.raises(TypeError, match=f"(?m)compress_stride must be an int, {unknown}"):
            Net()(given["input"], given["weight"], ms.mutable(8))
        with pytest.raises(TypeError, match="compress_stride must be an int, got Tensor"):
            Net()(given["input"], given["weight"], Tensor(8))


def test_bool_is_not_taken_for_a_cached_int():
    """True == 1, so a cache must not confuse them."""
    x, w = draw(96, N2, D), draw(1, N2)
    mindspore_nsa.nsa_compress(x, w, 1, 1, actual_seq_len=(1, 96))
    with pytest.raises(TypeError, match="compress_stride must be an int, got True"):
        mindspore_nsa.nsa_compress(x, w, 1, True, actual_seq_len=(1, 96))
    with pytest.raises(TypeError, match="actual_seq_len must be a tuple or list of ints, got True"):
        mindspore_nsa.nsa_compress(x, w, 1, 1, actual_seq_len=(True, 96))
    with pytest.raises(TypeError, match="got 1.0"):
        mindspore_nsa.nsa_compress(x, w, 1, 1, actual_seq_len=(1.0, 96))
    ends = namedtuple("Ends", "first last")
    mindspore_nsa.nsa_compress(x, w, 1, 1, actual_seq_len=ends(1, 96))
    for first in (True, 1.0):
        with pytest.raises(TypeError, match=f"must be a tuple or list of ints, got {first}"):
            mindspore_nsa.nsa_compress(x, w, 1, 1, actual_seq_len=ends(first, 96))


@pytest.mark.parametrize(
    "value", ["\ud800", "TND\0", "T\nND", "\u0422ND", "TND" + 1000 * " ", "x" * 1000]
)
def test_any_text_is_shown(value):
    """Escaped and cut, whether a str was asked for or not."""
    shown = ascii(value)[1:-1][:80]
    given = arguments("flash_attention_score")
    with pytest.raises(ValueError) as error:
        mindspore_nsa.flash_attention_score(**{**given, "input_layout": value})
    assert str(error.value).endswith(f"'BNSD', 'TND', got '{shown}'")
    with pytest.raises(TypeError) as error:
        mindspore_nsa.flash_attention_score(**{**given, "head_num": value})
    assert str(error.value).endswith(f": head_num must be an int, got '{shown}' (str)")
    with pytest.raises(TypeError) as error:
        mindspore_nsa.flash_attention_score(**{**given, "actual_seq_qlen": value})
    shown = " ".join(ascii(value).split())[:80]
    assert str(error.value).endswith(f" ints or a Tensor or None, got {shown} (str)")


@pytest.mark.parametrize("dtype", [np.uint8, np.uint64])
@pytest.mark.parametrize("name", EVERY)
def test_lists_of_numpy_integers(name, dtype):
    """They are Python's, also where the checks compute with them."""
    given = arguments(name)
    numpy = {
        key: tuple(map(dtype, value)) if isinstance(value, tuple) else value
        for key, value in given.items()
    }
    assert any(numpy[key] is not given[key] for key in given)
    out, expected = (call(name, **each).asnumpy() for each in (numpy, given))
    assert np.array_equal(out, expected)


class Layout(str, Enum):
    TND = "TND"


class Number(IntEnum):
    MODE = 3


def test_members_of_enums():
    """They are their values."""
    members = {"input_layout": Layout.TND, "sparse_mode": Number.MODE}
    out, expected = (call("flash_attention_score", **given).asnumpy() for given in (members, {}))
    assert np.array_equal(out, expected)


@pytest.mark.parametrize("mode", ["pynative", "graph"])
def test_a_flag_of_numpy(mode):
    given = {**arguments("flash_attention_score"), "return_softmax": np.bool_(True)}
    with context_mode(mode):
        outputs = Call(mindspore_nsa.flash_attention_score, given)(Tensor(1.0))
    assert len(outputs) == 3


@pytest.mark.parametrize(
    "bad, error, text",
    [
        (dict(seed="a"), TypeError, "seed must be an int or a Tensor, got 'a'"),
        (dict(seed=True), TypeError, "seed must be an int or a Tensor, got True"),
        (dict(seed=2**63), ValueError, "seed must be an int of 64 bits"),
        (dict(seed=Tensor(1.0)), TypeError, "seed must be of dtype int64 or int32, got float32"),
        (dict(seed=Tensor([1, 2])), ValueError, "seed must be of shape () or (1,), got (2,)"),
        (dict(keep_prob="a"), TypeError, "keep_prob must be a float"),
        (dict(keep_prob=0.0), ValueError, "keep_prob must be in (0, 1], got 0"),
        (dict(numel=1.5), TypeError, "numel must be an int"),
        (dict(numel=-1), ValueError, "numel must be "),
    ],
)
def test_dropout_mask(bad, error, text):
    given = {"keep_prob": 0.5, "numel": 64, "seed": 1, **bad}
    with pytest.raises(error) as eager:
        mindspore_nsa.dropout_mask(**given)
    assert first_line(eager.value).startswith(f"dropout_mask: {text}")
    if text.endswith("64 bits"):
        return  # MindSpore itself refuses it as a constant
    with pytest.raises(error) as compiled:
        in_graph("dropout_mask", given)
    assert first_line(compiled.value) == first_line(eager.value)


@pytest.mark.parametrize("seed", [-(2**63), 2**63 - 1])
def test_the_last_seeds_of_64_bits(seed):
    ours = mindspore_nsa.dropout_mask(0.5, 64, seed).asnumpy()
    expected = mindspore_nsa.dropout_mask(0.5, 64, Tensor(seed, ms.int64)).asnumpy()
    assert np.array_equal(ours, expected)


@pytest.mark.parametrize(
    "bad, error, text",
    [
        (dict(actual_seq_len="a"), TypeError, "actual_seq_len must be a tuple or list of ints or"),
        (dict(actual_seq_len=(5, 4)), ValueError, "actual_seq_len must be non-decreasing"),
        (dict(actual_seq_len=Tensor([1.0])), TypeError, "actual_seq_len must be of dtype int64 or"),
        (dict(actual_seq_len=Tensor([[1]])), ValueError, "actual_seq_len must be of rank 1"),
        (dict(actual_seq_len=Tensor([5, 4])), ValueError, "actual_seq_len must be non-decreasing"),
        (dict(compress_stride=0), ValueError, "compress_stride must be"),
        (dict(compress_block_size=7), ValueError, "compress_block_size must be at least"),
        (dict(compress_block_size="7"), TypeError, "compress_block_size must be an int"),
    ],
)
def test_compressed_seq_len(bad, error, text):
    given = {"actual_seq_len": (40, 96), "compress_block_size": 16, "compress_stride": 8, **bad}
    with pytest.raises(error) as eager:
        mindspore_nsa.compressed_seq_len(**given)
    assert first_line(eager.value).startswith(f"compressed_seq_len: {text}")
    with pytest.raises(error) as compiled:
        in_graph("compressed_seq_len", given)
    assert first_line(compiled.value) == first_line(eager.value)


def test_an_error_leaves_nothing_behind():
    """After a refused call the next good one works, forward and backward, in both modes."""
    given = arguments("nsa_compress")
    x, w = given["input"], given["weight"]

    def good(x, w):
        return mindspore_nsa.nsa_compress(x, w, 16, 8, actual_seq_len=(40, 96)).sum()

    def bad(x, w):
        return mindspore_nsa.nsa_compress(x, w, 16, 8, actual_seq_len=(40, 95)).sum()

    expected = ms.grad(good)(x, w).asnumpy()
    for mode in ("pynative", "graph"):
        with pytest.raises(ValueError):
            ms.grad(bad)(x, w)
        with context_mode(mode):
            assert np.array_equal(ms.grad(good)(x, w).asnumpy(), expected)
