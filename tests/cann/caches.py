"""Layers that generate from caches on MindSpore's device Ascend; prints what does not hold."""

import copy
import ctypes
import sys
from dataclasses import replace

import mindspore as ms
import numpy as np
from mindspore import Tensor, ops

from ascendc_twin import library
from mindspore_nsa.nn import AttentionCache
from mindspore_nsa.nn.cache_known import known
from model_zoo_demo import config as configs
from model_zoo_demo import generate, train
from model_zoo_demo.machine import set_up
from model_zoo_demo.model import Model
from tests.nn.test_cache import CONFIG, HIDDEN, Step, draw, make

SETTINGS = replace(
    CONFIG,
    head_dim=32,
    value_head_dim=16,
    compress_block_size=32,
    compress_stride=16,
    select_block_size=32,
    window_size=24,
)
PROMPTS = [b"the cat sat on the mat and", b"hello"]
BYTES = 6


def check(name, holds):
    """Says what does not hold."""
    if not holds:
        print(f"NOT {name}", flush=True)


def check_layer(kind):
    """Pieces against the whole, and what users do with rows."""
    layer, x = make(kind, SETTINGS), draw(2, 70, HIDDEN).astype(np.float16)
    whole, step = layer(Tensor(x)).asnumpy().astype(np.float32), Step(layer)
    cache = layer.new_cache(2, 80, "float16")
    parts = [step(Tensor(x[:, a:b]), cache).asnumpy() for a, b in ((0, 61), (61, 62), (62, 70))]
    error = np.abs(np.concatenate(parts, 1) - whole).max() / np.abs(whole).max()
    check(f"{kind}: pieces are the whole, got {error}", error <= 2.0**-7)
    cache.truncate([62, 62])
    packed, ends = Tensor(x[:, 62:].reshape(16, HIDDEN)), Tensor([8, 16], ms.int64)
    ragged = layer(packed, ends, cache=copy.deepcopy(cache)).asnumpy()
    check(f"{kind}: lengths in a Tensor", np.array_equal(ragged, parts[2].reshape(16, HIDDEN)))
    chosen, grown = cache.select([1, 0]), cache.grow(100)
    cache.copy_row(1, 0)
    check(f"{kind}: lengths", cache.lengths.asnumpy().tolist() == [62, 62])
    rows = {"select": (chosen, [1, 0]), "grow": (grown, [0, 1]), "copy_row": (cache, [0, 0])}
    for name, (other, order) in rows.items():
        last = step(Tensor(x[order, 62:]), other).asnumpy()
        check(f"{kind}: {name}", np.array_equal(last, parts[2][order]))


def waits():
    """Copies to the host and synchronisations of this process so far."""
    counts = (ctypes.c_uint64 * 2)()
    ctypes.CDLL(library()).TwinCountHostWaits(counts)
    return np.array(counts[:])


def state_of(cache):
    """The state of a cache, which takes no notice of it."""
    return tuple.__getitem__(cache, 0)


def check_waits(mode):
    """A step of a model reads nothing back; a list that the device computed is read once."""
    layers = [make(kind, SETTINGS) for kind in ("sparse", "dense")]
    caches = [layer.new_cache(2, 40, "float16") for layer in layers]

    def on_device(values):
        return Tensor(values).move_to("Ascend", blocking=True)

    x = draw(2, 1, HIDDEN).astype(np.float16)
    packed = on_device(x.reshape(2, HIDDEN))
    lists = {"none": on_device(x), "a tuple": packed, "of the host": packed, "computed": packed}
    ends = {"a tuple": (0, 2), "of the host": Tensor([1, 2])}
    for name, hidden in lists.items():
        for _ in range(3):
            given = on_device(np.array([2, 2])) if name == "computed" else ends.get(name)
            before, out = waits(), hidden
            for layer, cache in zip(layers, caches):
                out = layer(out, given, cache=cache)
            assert out.device != "CPU"  # asking for it waits until all is dispatched
            found = (waits() - before).tolist()
            out.asnumpy()
        # After the first step, which moves parameters; a graph is waited for at its end.
        expected = [int(name == "computed")] * 2
        got = found if mode == "pynative" else found[:1]
        check(f"lists {name}: reads, synchronisations {got}", got == expected[: len(got)])
    caches[0].truncate([8, 12])
    layers[0](packed, (1, 2), cache=caches[0])
    for state in map(state_of, caches):
        check("what the host knows", np.array_equal(known(state), state.asnumpy()))
    caches[0].truncate([8, 12])
    lengths = [cache.lengths.asnumpy().tolist() for cache in caches]
    check(f"lengths {lengths}", lengths == [[8, 12], [12, 12]])
    full = "cache must have a capacity for 42 tokens of row 0 (length 12), got capacity 40"
    try:
        layers[1](on_device(np.repeat(x[0], 30, 0)), (30, 30), cache=caches[1])
        check("a full cache is an error", False)
    except ValueError as error:
        check(f"the error, {error}", full in str(error))


CAPACITY = 40


def full(state):
    """A state whose rows have no room."""
    values = state.asnumpy().copy()
    values[:, -2:] = CAPACITY
    return Tensor(values).move_to("Ascend", blocking=True)


@ms.jit
def assigned(cache, values):
    """In a graph without a layer."""
    return ops.assign(cache[0], values)


@ms.jit
def assigned_of_several(caches, values):
    """In a graph without a layer."""
    return ops.assign(caches[0][0], values)


def taken_out(cache):
    state = cache[0]
    return cache, lambda: ops.assign(state, full(state))


def another_name(cache):
    state = AttentionCache((*cache,))[0]
    return cache, lambda: state.assign_value(full(state))


def a_view(cache):
    lengths = cache[0][:, -2:]
    return cache, lambda: lengths.copy_(Tensor(np.full((2, 2), CAPACITY)))


def added(cache):
    state = ((0,) + cache + (0,))[1]
    return cache, lambda: ops.assign(state, full(state))


def own_tensors(cache):
    tensors = [tensor.copy() for tensor in cache]
    return AttentionCache(tensors), lambda: ops.assign(tensors[0], full(tensors[0]))


def graph(cache):
    return cache, lambda: assigned(cache, full(state_of(cache)))


def graph_by_name(cache):
    return cache, lambda: assigned(values=full(state_of(cache)), cache=cache)


def graph_of_several(cache):
    caches = ms.mutable((cache,))
    return cache, lambda: assigned_of_several(caches, full(state_of(cache)))


WAYS = (taken_out, another_name, a_view, added, own_tensors, graph, graph_by_name, graph_of_several)


def check_others(layer, x):
    """A layer knows of rows that others have filled, in whatever way."""
    for way in WAYS:
        cache, write = way(layer.new_cache(2, CAPACITY, "float16"))
        layer(Tensor(x), cache=cache)
        for _ in range(2):
            write()
            try:
                layer(Tensor(x), cache=cache)
                check(f"{way.__name__}: full rows are an error", False)
            except ValueError as error:
                check(f"{way.__name__}: {error}", "(length 40), got capacity 40" in str(error))
            cache.truncate(3)
            layer(Tensor(x), cache=cache)


def check_known(mode):
    """The host knows no state and no list that something else than a layer's call has written."""
    layer = make("dense", SETTINGS)
    x = draw(2, 3, HIDDEN).astype(np.float16)
    check_others(layer, x)

    def one_token(cell, given):
        return (Tensor(x[:, :1]), *given[1:])

    def shortened(cache):
        handle = layer.register_forward_pre_hook(one_token)
        layer(Tensor(x), None, cache)
        handle.remove()

    def twice(cache):
        kind = type(layer)

        class Twice(kind):
            def construct(self, x, actual_seq_len=None, cache=None, key_padding_mask=None):
                super().construct(x, actual_seq_len, cache)
                return super().construct(x, actual_seq_len, cache)

        layer.__class__ = Twice
        layer(Tensor(x), None, cache)
        layer.__class__ = kind

    def constructed(cache):
        layer.construct(Tensor(x), None, cache)

    for way in (shortened, twice, constructed) if mode == "pynative" else ():
        cache = layer.new_cache(2, CAPACITY, "float16")
        layer(Tensor(x), cache=cache)
        way(cache)
        kept, there = known(state_of(cache)), state_of(cache).asnumpy()
        check(f"{way.__name__}: the state", kept is None or np.array_equal(kept, there))
    packed, ends = Tensor(x.reshape(6, HIDDEN)), Tensor([2, 6]).move_to("Ascend", blocking=True)
    layer(packed, ends)
    ops.assign(ends, Tensor([5, 6]))
    outs = [layer(packed, given).asnumpy() for given in (ends, (5, 6))]
    check("a list that is written", np.array_equal(*outs))


def generated(mode, device):
    """Texts of a model whose parameters are those of every device."""
    set_up(mode, device)
    model = Model(configs.load(train.CONFIGS / "twin.json"))
    rng = np.random.default_rng(5)
    for parameter in model.trainable_params():
        if parameter.ndim == 2:
            parameter.set_data(Tensor(rng.normal(0, 0.3, parameter.shape).astype(np.float32)))
    return generate.generate(model, 96, PROMPTS, BYTES, temperature=0)


def main(mode):
    """All of it in a mode."""
    ms.set_context(device_target="Ascend", mode={"graph": 0, "pynative": 1}[mode])
    # Before there is a graph of the caller's own, after which states are read again.
    check_waits(mode)
    check_known(mode)
    for kind in ("sparse", "dense"):
        check_layer(kind)
    print("TEXTS", [text.hex() for text in generated(mode, "Ascend")], flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
