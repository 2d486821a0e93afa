"""The KL losses of the indexers are those of attention's probabilities, in float64 NumPy."""

import numpy as np
import pytest
from mindspore import Tensor

from mindspore_nsa import ops

from .small import layer_of, text_of

LENGTH = 12


@pytest.fixture
def calls(monkeypatch):
    """The arguments of the attention and of the loss, as arrays."""
    found = {}
    for name in ("sparse_flash_attention", "flash_attention_score", "lightning_indexer_kl_loss"):
        right = getattr(ops, name)

        def recording(*args, name=name, right=right, **kwargs):
            found.setdefault(name, (args, kwargs))
            return right(*args, **kwargs)

        monkeypatch.setattr(ops, name, recording)
    return found


def _array(x):
    return x.asnumpy().astype(np.float64)


def _softmax(scores):
    weights = np.exp(scores - scores.max())
    return weights / weights.sum()


def _loss(given, teacher):
    """The mean over queries of sum p (log p - log y) over picks; teacher(query, picks) gives p."""
    query, key, weights = map(_array, given[2:5])
    total = 0.0
    for i in range(LENGTH):
        picks = np.arange(i + 1) if given[5] is None else given[5].asnumpy()[i, 0]
        picks = picks[(picks >= 0) & (picks <= i)]
        if len(picks):
            products = np.maximum(query[i] @ key[picks, 0].T, 0)
            y, p = _softmax(weights[i] @ products), teacher(i, picks)
            total += (p * (np.log(p) - np.log(y))).sum()
    return total / LENGTH


@pytest.mark.parametrize("kind", ["deepseek_v32", "glm_moe_dsa"])
@pytest.mark.parametrize("stage", ["dense", "sparse"])
def test_latent_attention(kind, stage, calls):
    layer, x = layer_of(kind), Tensor(text_of(1, LENGTH))
    loss = float(layer.indexer_loss(x, stage=stage))
    given, named = calls["lightning_indexer_kl_loss"]
    query = np.concatenate([_array(given[0]), _array(named["query_rope"])], -1)
    key = np.concatenate([_array(given[1]), _array(named["key_rope"])], -1)

    def teacher(i, picks):
        scores = query[i] @ key[picks, 0].T * layer.scale
        return np.mean([_softmax(head) for head in scores], 0)

    assert given[5] is None if stage == "dense" else given[5].shape == (LENGTH, 1, 4)
    assert abs(loss - _loss(given, teacher)) < 1e-5 * abs(loss)


def test_recall(calls):
    """The softmax's mass on own and on given picks, of packed documents; the output is dense."""
    layer, ends = layer_of("deepseek_v32"), (5, LENGTH)
    x = Tensor(text_of(1, LENGTH)[0])
    dense, _, own = layer(x, ends, stage="dense", return_indices=True)
    (query, key, _, _), _ = calls["flash_attention_score"]
    query, key = _array(query), _array(key)
    newest = np.array([[i, i - 1, -1] for i in [*range(5), *range(LENGTH - 5)]], np.int32)
    for given, picks in ((None, own.asnumpy()), (Tensor(newest), newest)):
        out, recall = layer(x, ends, topk_indices=given, stage="recall")
        np.testing.assert_array_equal(out.asnumpy(), dense.asnumpy())
        for i, found in enumerate(recall.asnumpy()):
            begin = 5 * (i >= 5)
            scores = query[i] @ key[begin : i + 1, 0].T * layer.scale
            mass = np.mean([_softmax(head) for head in scores], 0)
            assert abs(found - mass[picks[i][picks[i] >= 0]].sum()) < 1e-5
    rows = layer(Tensor(text_of(2, LENGTH)), stage="recall")[1]
    assert rows.shape == (2, LENGTH) and np.abs(rows[:, :4].asnumpy() - 1).max() < 1e-5
    for stage in ("recall", None):
        with pytest.raises(ValueError, match="stage of indexer_loss must be one with a KL loss"):
            layer.indexer_loss(x, ends, stage=stage)


@pytest.mark.parametrize("stage", ["dense", "sparse", "sparse_picks"])
def test_csa(stage, calls):
    layer, x = layer_of("v4_csa"), Tensor(text_of(1, LENGTH))
    loss = float(layer.indexer_loss(x, stage=stage))
    given, _ = calls["lightning_indexer_kl_loss"]
    (query, rows, _, indices, scale), _ = calls["sparse_flash_attention"]
    query, rows, indices = _array(query), _array(rows), indices.asnumpy()[:, 0]
    entries, sinks = _array(given[1]), _array(layer.sinks)
    np.testing.assert_array_equal(rows[LENGTH:], entries)

    def teacher(i, picks):
        read = indices[i][indices[i] >= 0]
        if stage == "sparse_picks":
            return np.mean([_softmax(h) for h in query[i] @ entries[picks, 0].T * scale], 0)
        scores = query[i] @ rows[read, 0].T * scale
        whole = np.exp(scores).sum(1) + np.exp(sinks)
        return (np.exp(query[i] @ entries[picks, 0].T * scale) / whole[:, None]).mean(0)

    assert given[5].shape[-1] == (LENGTH // 3 if stage == "dense" else 2)
    assert abs(loss - _loss(given, teacher)) < 1e-5 * abs(loss)


def test_the_two_teachers_differ():
    layer, x = layer_of("v4_csa"), Tensor(text_of(1, LENGTH))
    whole, picks = (float(layer.indexer_loss(x, stage=s)) for s in ("sparse", "sparse_picks"))
    assert abs(whole - picks) > 0.01 * abs(picks)
    assert layer(x, stage="sparse")[0].asnumpy().tolist() == layer(x).asnumpy().tolist()
