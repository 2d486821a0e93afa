"""MSA, MoBA and InfLLM-v2 as docs/block_indexer.md writes them, against their papers' definitions;
and what the choice of blocks is in a network: no gradient, weights of any floating dtype."""

import re
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, ops

import mindspore_nsa

from .calls import context_mode
from .operators import arguments, draw

PAGE = Path(__file__).resolve().parents[2] / "docs" / "block_indexer.md"
LENGTHS = (0, 70, 150)
BOTH = pytest.mark.parametrize("mode", ["pynative", "graph"])


@pytest.fixture(scope="module")
def page():
    """The functions of the page's first example."""
    source = re.search(r"^```python\n(.*?)^rng =", PAGE.read_text(), re.DOTALL | re.MULTILINE)[1]
    names = {}
    exec(source, names)
    return names


def values(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def softmax(x):
    e = np.exp(x - x.max(initial=-np.inf))
    return e / e.sum()


def attend(q, k, v, blocks, block):
    """One head's query over the tokens of its blocks up to the last one of k."""
    tokens = [t for b in sorted(blocks) for t in range(b * block, min((b + 1) * block, len(k)))]
    return softmax(k[tokens] @ q * len(q) ** -0.5) @ v[tokens]


def best(scores, count):
    return sorted(scores, key=lambda block: -scores[block])[:count]


def segments():
    return zip((0, *LENGTHS[:-1]), LENGTHS)


def by_query(q, k, v, choose, block):
    """Attention of every query and head; choose(position, head, keys so far, query rows)."""
    out = np.zeros((*q.shape[:2], v.shape[2]))
    group = q.shape[1] // k.shape[1]
    for begin, end in segments():
        for t in range(begin, end):
            for h in range(q.shape[1]):
                seen = slice(begin, t + 1)
                blocks = choose(begin, t, h)
                out[t, h] = attend(q[t, h], k[seen, h // group], v[seen, h // group], blocks, block)
    return out


def test_msa(page):
    """MiniMax-M3: token scores of one index head for each key head, max over blocks; a query's own
    block is among its `count`."""
    block, count = 8, 3
    q, k, v = values(1, 150, 4, 16), values(2, 150, 2, 16), values(3, 150, 2, 8)
    q_index, k_index = values(4, 150, 2, 12), values(5, 150, 1, 12)

    def choose(begin, t, head):
        own = (t - begin) // block
        token = k_index[begin : t + 1, 0] @ q_index[t, head // 2] / 12**0.5
        scores = {b: token[b * block : (b + 1) * block].max() for b in range(own)}
        return [own, *best(scores, count - 1)]

    ours = page["msa"](*map(Tensor, (q, k, v, q_index, k_index)), LENGTHS, block, count)
    np.testing.assert_allclose(ours.asnumpy(), by_query(q, k, v, choose, block), atol=2e-5)


def test_moba(page):
    """MoBA (arXiv 2502.13189): a head's query times the mean of a block's keys, of complete blocks
    before its own; the own block counts among the top k."""
    block, count = 8, 3
    q, k, v = (values(seed, 150, 3, 16) for seed in (1, 2, 3))

    def choose(begin, t, head):
        own = (t - begin) // block
        keys = k[begin : begin + own * block, head].reshape(own, block, 16)
        scores = dict(enumerate(keys.mean(axis=1) @ q[t, head]))
        return [own, *best(scores, count - 1)]

    ours = page["moba"](*map(Tensor, (q, k, v)), LENGTHS, block, count)
    np.testing.assert_allclose(ours.asnumpy(), by_query(q, k, v, choose, block), atol=2e-5)


def test_infllm_v2(page):
    """InfLLM-v2 (arXiv 2509.24663): softmax over mean-pooled windows that have ended, summed over
    the heads of a group, max over those that touch a block; first and last blocks always."""
    block, count, local, l, s = 8, 5, 2, 4, 2  # noqa: E741
    q, k, v = values(1, 150, 4, 16), values(2, 150, 2, 16), values(3, 150, 2, 8)

    def choose(begin, t, head):
        own, group = (t - begin) // block, head // 2
        windows = [w for w in range(0, t - begin + 1, s) if w + l <= t - begin + 1]
        pooled = [k[begin + w : begin + w + l, group].mean(axis=0) for w in windows]
        total = np.zeros(len(windows))
        for h in (2 * group, 2 * group + 1):
            if windows:
                total += softmax(np.array(pooled) @ q[t, h] * 16**-0.5)
        fixed = {0, *range(max(0, own - local + 1), own + 1)}
        scores = {
            b: max(p for w, p in zip(windows, total) if w < (b + 1) * block and w + l > b * block)
            for b in range(own)
            if b not in fixed
        }
        return [*fixed, *best(scores, count - len(fixed))]

    ours = page["infllm_v2"](*map(Tensor, (q, k, v)), LENGTHS, block, count, local, l, s)
    np.testing.assert_allclose(ours.asnumpy(), by_query(q, k, v, choose, block), atol=2e-5)


@BOTH
def test_no_gradient_flows_through_the_choice(mode):
    """A key that also attends has the attention's gradient alone; one that only chooses has 0."""
    x, index = draw(96, 2, 16), draw(96, 1, 12)
    lists = {"actual_seq_qlen": (96,), "actual_seq_kvlen": (96,)}

    def choose(x, index):
        return mindspore_nsa.block_indexer(
            index, index, score="max", block_size=16, block_count=2, head_groups=1, **lists
        )

    def attention(x, blocks):
        blocks = ops.concat((blocks, blocks), 1)
        out = mindspore_nsa.nsa_selected_attention(
            x, x, x, blocks, 0.3, 2, 16, 2, causal=True, **lists
        )[0]
        return ops.square(out).sum()

    def indexed(x, index):
        return attention(x, choose(x, index))

    blocks = choose(x, index)
    with context_mode(mode):
        dx, of_index = ms.grad(indexed, (0, 1))(x, index)
        expected = ms.grad(attention)(x, blocks)
        assert np.array_equal(dx.asnumpy(), expected.asnumpy()) and dx.asnumpy().any()
        assert of_index.shape == index.shape and not of_index.asnumpy().any()


@BOTH
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_weights_and_mixed_inputs(mode, dtype):
    given = arguments("block_indexer")
    kind = getattr(ms, dtype)
    narrow = {**given, "weights": given["weights"].astype(kind), "key": given["key"].astype(kind)}
    wide = {name: narrow[name].astype(ms.float32) for name in ("weights", "key")}
    with context_mode(mode):
        ours = mindspore_nsa.block_indexer(**narrow).asnumpy()
        np.testing.assert_array_equal(
            ours, mindspore_nsa.block_indexer(**{**given, **wide}).asnumpy()
        )


@pytest.mark.filterwarnings("ignore:target. graphs that were compiled:UserWarning")
@pytest.mark.parametrize("target", ["ascend_twin"])
def test_no_ascend_kernel(target):
    with (
        mindspore_nsa.target(target),
        pytest.raises(ValueError, match="block_indexer.*ascend_twin"),
    ):
        mindspore_nsa.block_indexer(**arguments("block_indexer"))
