"""Operators that are meant for each other have equal defaults."""

import inspect
import itertools

import numpy as np
import pytest
from mindspore import Tensor

import mindspore_nsa
from mindspore_nsa import _native, reference
from mindspore_nsa.ops import _cache_step

FUNCTIONS = {
    name: getattr(mindspore_nsa, name)
    for name in mindspore_nsa._OPERATORS
    if name not in ("compressed_seq_len", "dropout_mask", "nsa_select_attention")
}
NATIVE = {name.lower(): name for name in _native.op_names()}
# Defaults that differ for a reason. torch_npu's functions have these layouts, and a query of
# another layout is an error, because its rank is another. MindSpore's operators that pick tokens
# or attend to them are causal unless told otherwise, and have other words for no limit.
DIFFERENT = {"layout", "sparse_mode", "pre_tokens", "next_tokens"}
# Arguments that one operator needs and another can do without by their definitions.
OPTIONAL = {
    *("actual_seq_qlen", "actual_seq_kvlen", "actual_cmp_seq_kvlen", "cache", "scale_value"),
    *("actual_seq_len", "compress_block_size", "compress_stride", "weights"),
}


def defaults(function):
    return {p.name: p.default for p in inspect.signature(function).parameters.values()}


def test_shared_arguments():
    for one, other in itertools.combinations(FUNCTIONS, 2):
        ours, theirs = defaults(FUNCTIONS[one]), defaults(FUNCTIONS[other])
        for name in ours.keys() & theirs.keys() - DIFFERENT:
            required = inspect.Parameter.empty in (ours[name], theirs[name])
            if not (required and name in OPTIONAL):
                assert ours[name] == theirs[name], f"{one}, {other}: {name}"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_definitions(name):
    """The NumPy definition and the native operator have the defaults of the function."""
    ours = defaults(FUNCTIONS[name])
    theirs = defaults(getattr(reference, name))
    for argument in ours.keys() & theirs.keys():
        assert ours[argument] == theirs[argument], argument
    native = NATIVE.get(name.replace("_", ""))
    assert native or name == "lightning_indexer_kl_loss"  # which is made of several
    for attr in _native.schema(native)["attrs"] if native else ():
        default = ours.get(attr["name"])
        if None not in (default, attr["default"]) and default is not inspect.Parameter.empty:
            assert default == attr["default"], attr["name"]
    assert defaults(_cache_step.nsa_cache_step)["importance"] == "cann"


def test_layouts_cannot_be_mistaken():
    q, kv = (Tensor(np.ones(shape, np.float32)) for shape in ((2, 4, 8), (2, 16, 2, 8)))
    chosen = Tensor(np.zeros((2, 2, 1), np.int32))
    with pytest.raises(ValueError, match=r"query must be of shape \(B, S, N1, D\)"):
        mindspore_nsa.nsa_selected_attention_infer(
            q, kv, kv, chosen, 1.0, 4, 2, 8, 1, 16, actual_seq_kvlen=(16, 16)
        )
    with pytest.raises(ValueError, match=r"query must be of shape \(T, N1, D\)"):
        mindspore_nsa.nsa_compress_attention_infer(
            *(q.expand_dims(1), kv, kv, 1.0, 4, 2, 8, 1, 16, 4, 2), actual_cmp_seq_kvlen=(3, 3)
        )


def test_training_and_decoding_with_defaults_choose_the_same_blocks():
    """A row of 150 tokens, all of them queries: what was trained is what is decoded."""
    rng = np.random.default_rng(0)
    t, n1, n2, d, l, s, block, count = 150, 4, 2, 16, 8, 4, 16, 3  # noqa: E741
    scale = d**-0.5

    def draw(*shape):
        return Tensor(rng.standard_normal(shape).astype(np.float32))

    q, key, value = draw(t, n1, d), draw(t, n2, d), draw(t, n2, d)
    windows = (t - l) // s + 1
    k_cmp, v_cmp = draw(windows, n2, d), draw(windows, n2, d)
    sizes = (l, s, block, count)
    _, chosen, _, _ = mindspore_nsa.nsa_compress_attention(
        q, k_cmp, v_cmp, scale, n1, *sizes, actual_seq_qlen=(t,), causal=True
    )
    selected = mindspore_nsa.nsa_selected_attention(
        *(q, key, value, chosen, scale, n1, block, count),
        actual_seq_qlen=(t,), actual_seq_kvlen=(t,), causal=True,
    )[0].asnumpy()  # fmt: skip
    _, decoded = mindspore_nsa.nsa_compress_attention_infer(
        *(q, k_cmp.expand_dims(0), v_cmp.expand_dims(0), scale, n1, n2, block, count),
        *(windows, l, s),
        actual_seq_qlen=(t,), actual_cmp_seq_kvlen=(windows,), actual_sel_seq_kvlen=(t,),
    )  # fmt: skip
    np.testing.assert_array_equal(decoded.asnumpy(), chosen.asnumpy())
    gates = np.zeros((t, 3, n1), np.float32)
    gates[:, 1] = 1
    caches = [x.expand_dims(0) for x in (k_cmp, v_cmp, key, value, key, value)]
    out = mindspore_nsa.nsa_decode(
        q, Tensor(gates), *caches, scale, n1, *sizes, 1, actual_seq_kvlen=(t,)
    )
    np.testing.assert_allclose(out.asnumpy(), selected, atol=1e-5)
