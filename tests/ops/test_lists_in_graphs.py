"""Graphs read the lists of composed operators when they run, and refuse wrong ones."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from mindspore_nsa import ops
from tests.ops.conftest import pynative_mode, scratch_directory  # noqa: F401

TOKENS, KEYS = 6, 4


def _drawn(seed, *shape):
    return Tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


Q, KV, ENTRIES, WEIGHTS = (
    _drawn(0, TOKENS, 2, 8), _drawn(1, TOKENS, 1, 8), _drawn(2, KEYS, 1, 8), _drawn(3, TOKENS, 2),
)  # fmt: skip
PICKS = Tensor(np.zeros((TOKENS, 1, 2), np.int32))
MASS = Tensor(np.full((TOKENS, 1, 2), 0.25, np.float32))


def _mla(sums, keys):
    return ops.sparse_flash_mla(
        Q, ori_kv=KV, cmp_kv=ENTRIES, cu_seqlens_q=sums, cu_seqlens_ori_kv=sums,
        cu_seqlens_cmp_kv=keys, cmp_mask_mode=0, layout_q="TND", layout_kv="TND",
    )[0]  # fmt: skip


def _indexer(sums, keys):
    return ops.lightning_indexer_v2(
        Q, ENTRIES, WEIGHTS, 2, cu_seqlens_q=sums, cu_seqlens_k=keys, layout_q="TND",
        layout_k="TND",
    )[0]  # fmt: skip


def _kl_grad(sums, keys):
    return ops.sparse_lightning_indexer_kl_loss_grad(
        Q, ENTRIES, WEIGHTS, PICKS, MASS, cu_seqlens_q=sums, cu_seqlens_k=keys, mask_mode=0
    )[0]


def _kl_grad_of_rows(queries, keys):
    rows = [x.reshape(1, *x.shape) for x in (Q, ENTRIES, WEIGHTS, PICKS, MASS)]
    return ops.sparse_lightning_indexer_kl_loss_grad(
        *rows, seqused_q=queries, seqused_k=keys, layout_q="BSND", layout_k="BSND", mask_mode=0
    )[0]


def _compressor(sums, keys):
    return ops.compressor(KV[:, 0], KV[:, 0], ENTRIES[:2, 0], cu_seqlens=sums)[0]


def _sums(name, tokens, of, got):
    head = f"{name} must be prefix sums that begin with 0, do not decrease and end at most at the"
    return f"{head} {tokens} tokens of {of}, got {got} (list)"


RIGHT = [0, 2, TOKENS], [0, 2, KEYS]
# Operator, right lists, wrong ones, the error.
CASES = [
    (_mla, RIGHT, ([0, 2, 6], [0, 2, 5]), _sums("cu_seqlens_cmp_kv", KEYS, "cmp_kv", "[0, 2, 5]")),
    (_indexer, RIGHT, ([1, 2, 6], [0, 2, 4]), _sums("cu_seqlens_q", 6, "query", "[1, 2, 6]")),
    (_kl_grad, RIGHT, ([0, 2, 6], [0, 5, 4]), _sums("cu_seqlens_k", KEYS, "key", "[0, 5, 4]")),
    (_kl_grad_of_rows, ([5], [4]), ([7], [4]),
     "seqused_q must be in [0, 6], the tokens of a row of query, got [7] (list)"),
    (_compressor, RIGHT, ([0, -1, 6], [0]), _sums("cu_seqlens", 6, "kv", "[0, -1, 6]")),
]  # fmt: skip


@pytest.mark.parametrize("function, right, wrong, text", CASES, ids=[c[0].__name__ for c in CASES])
def test_wrong_lists(function, right, wrong, text):
    graph = ms.jit(function)
    right, wrong = (tuple(map(Tensor, lists)) for lists in (right, wrong))
    np.testing.assert_allclose(graph(*right).asnumpy(), function(*right).asnumpy(), atol=1e-6)
    with pytest.raises(ValueError) as eager:
        function(*wrong)
    with pytest.raises(RuntimeError) as compiled:
        graph(*wrong).asnumpy()
    assert str(eager.value).endswith(f": {text}")
    assert str(eager.value) in str(compiled.value)
