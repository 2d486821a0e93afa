"""Caches are written in place in every mode; there is no gradient; what is reserved is refused."""

import contextlib
import re

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, mint
from mindspore.common.api import _pynative_executor
from mindspore.nn.cell import MixedPrecisionType

import mindspore_nsa

from .calls import MODES, context_mode, in_mode

L, S, N, D = 8, 4, 2, 16


def draw(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def compress(tokens, weight, slots, lengths, cache):
    return mindspore_nsa.nsa_compress_with_cache(
        tokens, weight, slots, L, S, 64, actual_seq_len=lengths, cache=cache
    )


def compress_and_read(tokens, weight, slots, lengths, cache):
    """A read after the call, without its result, sees the writes."""
    written = compress(tokens, weight, slots, lengths, cache)
    return written.sum(axis=(1, 2)), cache + 0


@pytest.mark.parametrize("mode", MODES)
def test_a_cache_is_written_in_place(mode):
    """One graph for every length; the caller's own Tensor grows."""
    tokens, weight = Tensor(draw(40, N, D)), Tensor(draw(L, N))
    expected = mindspore_nsa.nsa_compress(tokens, weight, L, S, actual_seq_len=(40,)).asnumpy()
    cache = Tensor(np.zeros((12, N, D), np.float32))
    with context_mode(mode):
        step = in_mode(mode, compress_and_read)
        for n in range(1, 41):
            slot = max(0, (n - L) // S)
            given = Tensor([slot], ms.int64), Tensor([n], ms.int64)
            sums, _ = step(tokens, weight, *given, cache)
            done = slot + 1 if n >= L else 0
            held = cache.asnumpy()
            assert np.abs(held[:done] - expected[:done]).max(initial=0) < 1e-5, n
            assert not held[done:].any()
            assert np.allclose(sums.asnumpy(), held.sum(axis=(1, 2)), atol=1e-4)


def decoding_arguments():
    rows, kv = (3, 8, D), (3, 40, 2, D)
    return {
        "query": Tensor(draw(*rows)),
        "gates": Tensor(draw(3, 3, 8)),
        **{f"{kind}_{b}": Tensor(draw(*kv)) for b in ("cmp", "slc", "win") for kind in
           ("key", "value")},
        "scale_value": 0.25,
        "head_num": 8,
        "compress_block_size": L,
        "compress_stride": S,
        "select_block_size": L,
        "select_block_count": 3,
        "window_size": 10,
        "actual_seq_kvlen": (40, 3, 17),
    }  # fmt: skip


def infer_arguments(**more):
    return {
        "query": Tensor(draw(3, 8, D)),
        "key": Tensor(draw(3, 40, 2, D)),
        "value": Tensor(draw(3, 40, 2, D)),
        "scale_value": 0.25,
        "head_num": 8,
        "key_value_head_num": 2,
        "select_block_size": L,
        "select_block_count": 3,
        "page_block_size": 40,
        "layout": "TND",
        **more,
    }


CALLS = {
    "nsa_decode": decoding_arguments,
    "nsa_compress_attention_infer": lambda: infer_arguments(
        compress_block_size=L, compress_stride=S, actual_cmp_seq_kvlen=(40, 3, 17)
    ),
    "nsa_selected_attention_infer": lambda: infer_arguments(
        topk_indices=Tensor(np.zeros((3, 2, 3), np.int32)), actual_seq_kvlen=(40, 3, 17)
    ),
}


@pytest.mark.parametrize("mode", ["pynative", "jit_O0"])
@pytest.mark.parametrize("name", CALLS)
def test_no_gradient(name, mode):
    function, given = getattr(mindspore_nsa, name), CALLS[name]()
    query = given.pop("query")

    def total(x):
        out = function(query=x, **given)
        return (out[0] if isinstance(out, tuple) else out).sum()

    with pytest.raises(RuntimeError, match=f"{name}: it has no gradient, because it reads a cache"):
        in_mode(mode, ms.grad(total))(query).asnumpy()


@pytest.mark.parametrize(
    "name, argument",
    [
        ("nsa_compress_attention_infer", "atten_mask"),
        ("nsa_compress_attention_infer", "topk_mask"),
        ("nsa_selected_attention_infer", "atten_mask"),
    ],
)
def test_reserved_arguments(name, argument):
    given = {**CALLS[name](), argument: Tensor(np.zeros((3, 3), bool))}
    with pytest.raises(ValueError, match=f"{name}: {argument} must be None, it is reserved"):
        getattr(mindspore_nsa, name)(**given)


def test_a_promoted_cache_is_refused():
    """It would be a copy, which is written instead."""
    tokens, weight = Tensor(draw(40, N, D)), Tensor(draw(L, N))
    cache = Tensor(np.zeros((12, N, D), np.float16))
    with pytest.raises(TypeError, match="must be of one dtype, got float32, float32, float16"):
        compress(tokens, weight, (0,), (8,), cache)
    given = decoding_arguments()
    given["key_slc"] = given["key_slc"].astype(ms.bfloat16)
    with pytest.raises(TypeError, match="nsa_decode: query and caches must be of one dtype"):
        mindspore_nsa.nsa_decode(**given)


PARTS = {
    "rows": ((8, N, D), lambda x: x[4:]),
    "every other row": ((8, N, D), lambda x: x[::2]),
    "one of several": ((2, 4, N, D), lambda x: mint.select(x, 0, 1)),
    "heads": ((4, 3 * N, D), lambda x: mint.narrow(x, 1, N, N)),
}
WHOLES = {
    "all rows": ((4, N, D), lambda x: x[:]),
    "another shape": ((4, N * D), lambda x: x.view(4, N, D)),
    "one axis less": ((4, 1, N * D), lambda x: x.reshape(4, N, D)),
}


def full_windows(slots):
    """Arguments of `compress` with two rows that fill windows."""
    tokens, weight = Tensor(draw(2 * L, N, D)), Tensor(draw(L, N))
    return tokens, weight, slots, (L, L)


# After an error in a graph MindSpore sleeps three seconds: each part in one of the modes of graphs,
# with make soak in all.
GRAPHS = ("graph", "jit_O0", "jit_O1")


def by_turns():
    for i, (name, (shape, part)) in enumerate(PARTS.items()):
        for mode in MODES:
            soaked = mode in GRAPHS and mode != GRAPHS[i % len(GRAPHS)]
            marks = pytest.mark.soak if soaked else ()
            yield pytest.param(mode, shape, part, marks=marks, id=f"{name}-{mode}")


@pytest.mark.parametrize("mode, shape, part", list(by_turns()))
def test_a_view_of_a_part_is_refused(mode, shape, part):
    """MindSpore would pass a copy of it, which would be written in its place."""
    whole = Tensor(np.zeros(shape, np.float32))
    kind = RuntimeError if mode in GRAPHS else ValueError
    with context_mode(mode):
        view = part(whole)
        with pytest.raises(kind, match="cache must be no view|does not support view input"):
            in_mode(mode, compress)(*full_windows((3, 1)), view).asnumpy()
    assert not whole.asnumpy().any()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape, view", WHOLES.values(), ids=WHOLES)
def test_a_view_of_the_whole(mode, shape, view):
    """A graph gets it as it is; in PyNative mode it would be a copy, too."""
    whole = Tensor(np.zeros(shape, np.float32))
    slots = (3, 1)
    with context_mode(mode):
        run = in_mode(mode, compress)
        if mode in ("pynative", "jit_bytecode"):
            with pytest.raises(RuntimeError, match="cache must be no view of another Tensor"):
                run(*full_windows(slots), view(whole)).asnumpy()
            assert not whole.asnumpy().any()
            return
        fresh = compress(*full_windows(slots), Tensor(np.zeros(view(whole).shape, np.float32)))
        run(*full_windows(slots), view(whole)).asnumpy()
        np.testing.assert_array_equal(view(whole).asnumpy(), fresh.asnumpy())


class Step(ms.nn.Cell):
    """A step with a cache of its own."""

    def __init__(self):
        super().__init__()
        cache = Tensor(np.zeros((4, N, D), np.float32))
        self.cache = ms.Parameter(cache, name="cache", requires_grad=False)

    def construct(self, tokens, weight):
        return compress(tokens, weight, (3, 1), (L, L), self.cache)


class StepOf(ms.nn.Cell):
    """A step with a cache that is an argument."""

    def construct(self, tokens, weight, cache):
        return compress(tokens, weight, (3, 1), (L, L), cache)


@contextlib.contextmanager
def mixed_precision():
    """MindSpore leaves it on where a Cell of it ends with an error."""
    try:
        yield
    finally:
        _pynative_executor.set_mixed_precision_type(MixedPrecisionType.NOTSET, False)


@pytest.mark.parametrize("mode", ["pynative", "graph"])
@pytest.mark.parametrize("level", ["O2", "O3", "to_float"])
def test_a_cache_that_mixed_precision_casts_is_refused(mode, level):
    """The copy of another dtype would be written."""
    net = Step()
    cache = net.cache
    with context_mode(mode), mixed_precision():
        if level == "to_float":
            net = net.to_float(ms.float16)
        else:
            net = ms.amp.auto_mixed_precision(net, level)
            cache.set_dtype(ms.float32)  # O3 narrows Parameters themselves
        with pytest.raises(TypeError, match="must be of the dtype that mixed.*float32|one dtype"):
            net(*full_windows(None)[:2])
    assert not cache.asnumpy().any()


def test_an_argument_that_mixed_precision_casts_is_refused():
    """In PyNative mode; a graph casts it before anything else, and gives the written one."""
    cache = Tensor(np.zeros((4, N, D), np.float32))
    given = full_windows(None)[:2]
    with mixed_precision():
        error = "must be of the dtype that mixed precision casts it to: .*, got float32 in place of"
        with pytest.raises(TypeError, match=error):
            StepOf().to_float(ms.bfloat16)(*given, cache)
    with context_mode("graph"):
        written = StepOf().to_float(ms.float16)(*given, cache).asnumpy()
    assert written[[1, 3]].any(axis=(1, 2)).all() and not cache.asnumpy().any()


@pytest.mark.parametrize("mode", ["pynative", "graph"])
def test_a_narrow_cache_in_mixed_precision(mode):
    """All of one dtype, nothing is cast."""
    tokens, weight = (x.astype(ms.float16) for x in full_windows(None)[:2])
    cache = Tensor(np.zeros((4, N, D), np.float16))
    with context_mode(mode):
        StepOf().to_float(ms.float16)(tokens, weight, cache).asnumpy()
    assert cache.asnumpy()[[1, 3]].any(axis=(1, 2)).all()


def paged_calls():
    """Every operator with pages of 10 tokens, of which the caches have 12; tables for 3 rows."""
    pages = Tensor(draw(12, 10, N, D))
    decoding = decoding_arguments()
    infer = {"key": pages, "value": pages, "page_block_size": 10}
    tables = {name: CALLS[name]() for name in CALLS if name != "nsa_decode"}
    calls = [(name, {**given, **infer}, "block_table") for name, given in tables.items()]
    paged = {**decoding, "key_slc": pages, "value_slc": pages}
    calls.append(("nsa_decode", paged, "block_table"))
    caches = [f"{kind}_{branch}" for kind in ("key", "value") for branch in ("cmp", "slc", "win")]
    swapped = {name: paged[name].swapaxes(1, 2) + 0 for name in caches}
    calls.append(("nsa_decode", {**paged, **swapped, "cache_layout": "BNSD"}, "block_table"))
    caches = {"key_cmp": pages, "value_cmp": pages}
    calls.append(("nsa_decode", {**decoding, **caches}, "cmp_block_table"))
    written = {
        "input": pages,
        "weight": Tensor(draw(L, N)),
        "slot_mapping": (0, 1, 2),
        "compress_block_size": L,
        "compress_stride": S,
        "page_block_size": 10,
        "actual_seq_len": Tensor([40, 8, 16]),
        "cache": Tensor(np.zeros((3, N, D), np.float32)),
    }
    return [*calls, ("nsa_compress_with_cache", written, "block_table")]


def first(outputs):
    return outputs[0] if isinstance(outputs, tuple) else outputs


@pytest.mark.parametrize("mode, kind", [("pynative", ValueError), ("jit_O0", RuntimeError)])
def test_a_wrong_page(mode, kind):
    """An error at the call in PyNative mode, and nothing written; places that no row needs pass."""
    table = np.arange(12, dtype=np.int32).reshape(3, 4)
    table[1, 1:] = -5  # 3 or 8 tokens of this row
    for name, given, argument in paged_calls():
        if mode != "pynative" and "cache_layout" in given:
            continue  # The layout counts where the check is Python's.
        function = getattr(mindspore_nsa, name)

        def call(values, function=function, given=given, argument=argument):
            return function(**given, **{argument: values})

        call = in_mode(mode, call)
        with context_mode(mode):
            first(call(Tensor(table))).asnumpy()
            before = given["cache"].asnumpy().copy() if "cache" in given else None
            # After an error MindSpore miscounts the outputs of a jit function.
            for page in (12, -1) if mode == "pynative" else (12,):
                wrong = table.copy()
                wrong[2, 0] = page
                message = f"{argument} must be of pages in [0, 12), got {page} at place 0 of row 2"
                with pytest.raises(kind, match=re.escape(f"{name}: {message}")):
                    out = call(Tensor(wrong))
                    if mode != "pynative":
                        first(out).asnumpy()
        if before is not None:
            np.testing.assert_array_equal(given["cache"].asnumpy(), before)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint64])
def test_pages_of_lengths_of_numpy_integers(dtype):
    """A row shorter than a window reads no page of compressed tokens."""
    table = np.arange(12, dtype=np.int32).reshape(3, 4)
    for name, given, argument in paged_calls():
        table[1] = -5 if argument == "cmp_block_table" else (4, -5, -5, -5)
        rows = {key: value for key, value in given.items() if key.startswith("actual")}
        rows = {k: v.tolist() if isinstance(v, Tensor) else v for k, v in rows.items()}
        given = {**given, argument: Tensor(table)}
        expected, out = (
            first(getattr(mindspore_nsa, name)(**{**given, **lists})).asnumpy().copy()
            for lists in (rows, {key: tuple(map(dtype, value)) for key, value in rows.items()})
        )
        np.testing.assert_array_equal(out, expected)


def emptied(value):
    """The argument for a batch of no rows."""
    if isinstance(value, Tensor) and value.shape[0] == 3:
        return Tensor(np.zeros((0, *value.shape[1:]), value.asnumpy().dtype))
    return () if isinstance(value, tuple) else value


@pytest.mark.parametrize("lists", ["tuples", "Tensors"])
@pytest.mark.parametrize("name", CALLS)
def test_no_rows(name, lists):
    """Empty lists are those of an empty batch, and of no other."""
    function, given = getattr(mindspore_nsa, name), CALLS[name]()
    empty = {key: emptied(value) for key, value in given.items()}
    if lists == "Tensors":
        empty = {k: Tensor([], ms.int64) if v == () else v for k, v in empty.items()}
    shape = first(function(**given)).shape
    assert first(function(**empty)).shape == (0, *shape[1:])
    with pytest.raises(ValueError, match=f"{name}: "):
        function(**{**empty, "query": given["query"]})


@pytest.mark.parametrize("mode", [5, 6])
def test_a_prefix_of_no_rows(mode):
    q, k = (Tensor(np.zeros((0, 2, length, D), np.float32)) for length in (3, 5))

    def attend(q, k, prefix=()):
        return mindspore_nsa.flash_attention_score(
            q, k, k, 2, input_layout="BNSD", sparse_mode=mode, prefix=prefix
        )

    assert attend(q, k).shape == attend(q, k, Tensor([], ms.int64)).shape == q.shape
    with pytest.raises(ValueError, match=r"prefix must be of shape \(B,\) = \(1,\)"):
        attend(Tensor(draw(1, 2, 3, D)), Tensor(draw(1, 2, 5, D)))


def test_a_cache_of_no_rows():
    cache = Tensor(np.zeros((4, N, D), np.float32))
    compress(Tensor(draw(2 * L, N, D)), Tensor(draw(L, N)), (), (), cache).asnumpy()
    assert not cache.asnumpy().any()
