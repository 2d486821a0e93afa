"""The KL losses of an indexer: examples, other definitions, order of additions, memory."""

import numpy as np
import pytest

from mindspore_nsa import _native, reference
from tests.common.cases import make_case

SPARSE = "SparseLightningIndexerGradKLLoss"
DENSE = "DenseLightningIndexerGradKLLoss"
LOG_SUM = "DenseLightningIndexerSoftmaxLse"
NAMES = {
    op: [spec["name"] for spec in _native.schema(op)["inputs"]] for op in (SPARSE, DENSE, LOG_SUM)
}
ATTRS = ("sparse_mode", "layout")


def run(op, given, **attrs):
    attrs |= {name: given[name] for name in ATTRS if name in given}
    return _native.run(op, [given.get(name) for name in NAMES[op]], attrs)


def loss_of(op, scale=1.0, **given):
    return run(op, given, scale_value=scale)


def dense_loss_of(scale=1.0, **given):
    top, total = run(LOG_SUM, given)
    more = {"softmax_max_index": top, "softmax_sum_index": total}
    return loss_of(DENSE, scale, **given, **more)


def draw(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def setting(queries=20, keys=50, picks=30, seed=0):
    """An attention of six heads over two of keys, an indexer with one, and random picks."""
    rng = np.random.default_rng(seed)
    indices = np.stack([rng.permutation(keys)[:picks] for _ in range(queries)])
    given = {
        "query": draw(1, 1, queries, 6, 16),
        "key": draw(2, 1, keys, 2, 16),
        "query_index": draw(3, 1, queries, 4, 8),
        "key_index": draw(4, 1, keys, 1, 8),
        "weights": draw(5, 1, queries, 4) / 6,
        "sparse_indices": indices.astype(np.int32).reshape(1, queries, 1, picks),
    }
    return {**given, **statistics(given)}


def statistics(given, scale=0.25, **more):
    """Statistics of the attention over the selected tokens."""
    picks = np.repeat(given["sparse_indices"], 2, axis=2)
    _, top, total = reference.sparse_flash_attention(
        given["query"], given["key"], given["key"], picks, scale, return_softmax_lse=True, **more
    )
    return {"softmax_max": top.astype(np.float32), "softmax_sum": total.astype(np.float32)}


def test_the_example_of_the_definition(isa):
    """Scores 0 and ln 3 of two keys with equal attention: their gradients are -1/4 and 1/4."""
    one = np.ones((1, 1, 1, 1), np.float32)
    ln3 = np.float32(np.log(3))
    dq, dk, dw, loss = loss_of(
        SPARSE, query=one, key=np.zeros((1, 2, 1, 1), np.float32), query_index=one,
        key_index=np.array([0, ln3], np.float32).reshape(1, 2, 1, 1), weights=one[0],
        sparse_indices=np.array([1, 0], np.int32).reshape(1, 1, 1, 2), softmax_max=0 * one,
        softmax_sum=2 * one, sparse_mode=0)  # fmt: skip
    assert abs(loss[0] - 0.1438410) < 1e-6
    np.testing.assert_allclose(dk.ravel(), [0, 0.25], atol=1e-7)  # at 0, ReLU has none
    np.testing.assert_allclose([dq.item(), dw.item()], ln3 / 4, rtol=1e-6)


def by_definition(given, scale=0.25):
    """Loss and mass of the teacher with the rows' softmax written out, every query sees all."""
    q, k = given["query"][0].astype(float), np.repeat(given["key"][0].astype(float), 3, axis=1)
    scores = scale * np.einsum("qhd,khd->qhk", q, k)
    z = np.einsum("qhd,kd->qhk", given["query_index"][0], given["key_index"][0, :, 0])
    student = np.einsum("qhk,qh->qk", np.maximum(0, z), given["weights"][0])
    total = 0.0
    for row, picks in enumerate(given["sparse_indices"][0, :, 0]):
        of_heads = np.exp(scores[row][:, picks])
        p = (of_heads / of_heads.sum(-1, keepdims=True)).mean(0)
        y = np.exp(student[row, picks])
        total += (p * np.log(p / (y / y.sum()))).sum()
    return total


def test_another_definition(isa):
    given = setting(picks=50)
    ours = loss_of(SPARSE, 0.25, **(given | statistics(given, sparse_mode=0)), sparse_mode=0)
    np.testing.assert_allclose(ours[3], by_definition(given), rtol=1e-5)


def test_dense_is_sparse_with_every_pick(isa):
    """In mode 0 and causal, with queries that see nothing."""
    for queries, keys, mode in ((20, 50, 0), (20, 50, 3), (50, 20, 3)):
        given = setting(queries, keys, keys) | {"sparse_mode": mode}
        given |= statistics(given, sparse_mode=mode)
        sparse, dense = loss_of(SPARSE, 0.25, **given), dense_loss_of(0.25, **given)
        for a, b in zip(sparse, dense, strict=True):
            np.testing.assert_allclose(a, b, atol=2e-6 * np.abs(a).max())
        np.testing.assert_array_equal(sparse[0] == 0, dense[0] == 0)


def test_log_sum_of_the_definition(isa):
    """Hidden scores leave no trace, and rows without keys have the marks."""
    given = setting(50, 20, 1)
    given["key_index"][0, 3] = np.inf  # the first that sees it is number 33
    top, total = run(LOG_SUM, given)
    largest = np.finfo(np.float32).max
    assert (top[0, 0, :30] == -largest).all() and (total[0, 0, :30] == largest).all()
    z = np.einsum("qhd,kd->qhk", given["query_index"][0], given["key_index"][0, :3, 0])
    scores = np.einsum("qhk,qh->qk", np.maximum(0, z), given["weights"][0])
    for row, seen in ((30, 1), (32, 3)):
        np.testing.assert_allclose(
            top[0, 0, row] + np.log(total[0, 0, row]),
            np.log(np.exp(scores[row, :seen].astype(float)).sum()), rtol=1e-5)  # fmt: skip
    assert not np.isfinite(top[0, 0, 33:] * total[0, 0, 33:]).any()


@pytest.fixture
def two_threads():
    _native.set_num_threads(2)
    yield
    _native.set_num_threads(0)


def test_dense_waves_of_queries(two_threads):
    """Several waves, of keys that are packed in several parts, are what their parts are."""
    queries, keys = 400, 40_000
    rng = np.random.default_rng(3)
    given = {
        "query": draw(1, 1, queries, 2, 4),
        "key": draw(2, 1, keys, 2, 4),
        "query_index": draw(3, 1, queries, 2, 4),
        "key_index": draw(4, 1, keys, 1, 4),
        "weights": draw(5, 1, queries, 2),
        "softmax_max": np.full((1, 2, queries, 1), 3, np.float32),
        "softmax_sum": rng.uniform(1e4, 2e4, (1, 2, queries, 1)).astype(np.float32),
        "sparse_mode": 0,
    }
    _native.reset_scratch_high_water()
    whole = dense_loss_of(0.5, **given)
    limit = (33 << 20) + keys * 4 * (2 * 4 + 16) + _native.num_threads() * (2 << 20)
    assert _native.scratch_high_water() < limit < 4 * queries * keys
    parts = []
    for rows in (slice(0, 150), slice(150, queries)):
        cut = {name: given[name][:, rows].copy() for name in ("query", "query_index", "weights")}
        cut |= {name: given[name][:, :, rows].copy() for name in ("softmax_max", "softmax_sum")}
        parts.append(dense_loss_of(0.5, **(given | cut)))
    for place in (0, 2):
        both = np.concatenate([part[place] for part in parts], axis=1)
        np.testing.assert_allclose(whole[place], both, rtol=1e-5, atol=1e-7)
    for place in (1, 3):
        both = parts[0][place] + parts[1][place]
        np.testing.assert_allclose(whole[place], both, atol=1e-6 * np.abs(both).max())


def test_order_and_what_contributes_nothing(isa):
    """Neither the order of a query's picks nor what it does not see changes a bit."""
    given = setting()
    first = loss_of(SPARSE, 0.25, **given)
    rng = np.random.default_rng(1)
    more = np.full((1, 20, 1, 40), -1, np.int32)
    more[..., :30], more[..., 30:35] = given["sparse_indices"], 50
    mixed = np.ascontiguousarray(rng.permuted(more, axis=-1))
    for a, b in zip(first, loss_of(SPARSE, 0.25, **(given | {"sparse_indices": mixed}))):
        assert a.tobytes() == b.tobytes()
    empty = loss_of(SPARSE, 0.25, **(given | {"sparse_indices": np.full_like(more, -1)}))
    assert not any(x.any() for x in empty)


def test_parts_of_the_queries_are_the_whole(isa):
    given = setting()
    whole = loss_of(SPARSE, 0.25, **given)

    def part(rows, keys):
        of_query = ("query", "query_index", "weights", "sparse_indices")
        cut = {name: given[name][:, rows].copy() for name in of_query}
        cut |= {name: given[name][:, :keys].copy() for name in ("key", "key_index")}
        cut |= {name: given[name][:, :, rows].copy() for name in ("softmax_max", "softmax_sum")}
        return loss_of(SPARSE, 0.25, **cut)

    first, last = part(slice(0, 7), 37), part(slice(7, 20), 50)
    for place in (0, 2):
        parts = np.concatenate((first[place], last[place]), axis=1)
        np.testing.assert_array_equal(parts, whole[place])
    np.testing.assert_allclose(first[3] + last[3], whole[3], rtol=1e-6)


@pytest.mark.parametrize("op", [SPARSE, DENSE])
def test_groups_are_indexers_of_their_own(op):
    """Two key heads of an indexer, each with its part of the heads."""

    def of(given):
        return dense_loss_of(0.25, **given) if op == DENSE else loss_of(SPARSE, 0.25, **given)

    given = setting()
    two = given | {
        "key_index": draw(6, 1, 50, 2, 8),
        "sparse_indices": np.concatenate((given["sparse_indices"], given["sparse_indices"]), 2),
    }
    dq, dk, dw, loss = of(two)
    total = 0
    for g in range(2):
        heads, of_query = slice(2 * g, 2 * g + 2), slice(3 * g, 3 * g + 3)
        one = given | {
            "query": two["query"][:, :, of_query].copy(),
            "query_index": two["query_index"][:, :, heads].copy(),
            "weights": two["weights"][:, :, heads].copy(),
            **{name: two[name][:, :, [g]].copy() for name in ("key", "key_index")},
            **{name: two[name][:, [g]].copy() for name in ("softmax_max", "softmax_sum")},
        }
        alone = of(one)
        np.testing.assert_array_equal(dq[:, :, heads], alone[0])
        np.testing.assert_array_equal(dk[:, :, [g]], alone[1])
        np.testing.assert_array_equal(dw[:, :, heads], alone[2])
        total += alone[3]
    np.testing.assert_allclose(loss, total, rtol=1e-6)


@pytest.mark.parametrize("op", NAMES)
def test_threads(op):
    for seed in range(15):
        case = make_case(seed, op)
        one, many = (_native.run(case.op, case.inputs, case.attrs, num_threads=n) for n in (1, 16))
        for a, b in zip(one, many, strict=True):
            a, b = (x[1] if isinstance(x, tuple) else x for x in (a, b))
            assert a.tobytes() == b.tobytes(), case


def test_sparse_scratch_does_not_grow_with_the_keys():
    """Scratch for float32 keys, whose gradients are summed up in the output."""
    picks = np.random.default_rng(7).integers(0, 100_000, (1, 4, 1, 512)).astype(np.int32)
    given = {
        "query": draw(8, 1, 4, 16, 64),
        "key": draw(9, 1, 100_000, 1, 64),
        "query_index": draw(10, 1, 4, 8, 16),
        "key_index": draw(11, 1, 100_000, 1, 16),
        "weights": draw(12, 1, 4, 8),
        "sparse_indices": picks,
        "softmax_max": np.full((1, 1, 4, 16), 3, np.float32),
        "softmax_sum": np.full((1, 1, 4, 16), 9, np.float32),
    }
    _native.reset_scratch_high_water()
    outputs = loss_of(SPARSE, 0.125, **given, sparse_mode=0)
    assert all(x.any() for x in outputs)
    assert _native.scratch_high_water() < (1 + _native.num_threads()) * (1 << 20)


def _operands(rng):
    shapes = [(1, 3, 4, 5), (1, 9, 2, 5), (1, 3, 3, 4), (1, 9, 1, 4), (1, 3, 3)]
    return [rng.standard_normal(shape) for shape in shapes]


def check_slopes(loss, slopes, operands):
    """By finite differences, for the operands of the indexer."""
    for place, slope in zip((2, 3, 4), slopes, strict=True):
        for at in np.ndindex(operands[place].shape):
            step = np.zeros_like(operands[place])
            step[at] = 1e-6
            up, down = (
                loss(*operands[:place], operands[place] + sign * step, *operands[place + 1 :])
                for sign in (1, -1)
            )
            assert abs((up - down) / 2e-6 - slope[at]) < 1e-7, place


def test_sparse_gradient_by_finite_differences():
    """In float64, off the kink of ReLU: the definition that the kernels are compared with."""
    rng = np.random.default_rng(10)
    operands = _operands(rng)
    picks = rng.integers(-1, 9, (1, 3, 1, 6)).astype(np.int32)
    q, k = operands[:2]
    ropes = {"query_rope": rng.standard_normal((1, 3, 4, 2)),
             "key_rope": rng.standard_normal((1, 9, 2, 2))}  # fmt: skip
    _, top, total = reference.sparse_flash_attention(
        q, k, k, np.repeat(picks, 2, axis=2), 0.7, return_softmax_lse=True, attention_mode=2,
        **ropes)  # fmt: skip

    def outputs(*operands):
        return reference.sparse_lightning_indexer_grad_kl_loss(
            *operands, picks, top, total, 0.7, **ropes
        )

    check_slopes(lambda *x: outputs(*x)[3].item(), outputs(*operands)[:3], operands)


def test_dense_gradient_by_finite_differences():
    rng = np.random.default_rng(11)
    operands = _operands(rng)
    q, k = operands[:2]
    every = np.broadcast_to(np.arange(9), (1, 3, 2, 9))
    _, top, total = reference.sparse_flash_attention(q, k, k, every, 0.7, return_softmax_lse=True)

    def loss(*operands):
        return reference.lightning_indexer_kl_loss(
            *operands, None, top, total, 0.7, reduction="sum"
        )

    slopes = reference.dense_lightning_indexer_grad_kl_loss(
        *operands, top, total, *reference.dense_lightning_indexer_softmax_lse(*operands[2:]), 0.7
    )
    assert slopes[3] == loss(*operands)
    check_slopes(loss, slopes[:3], operands)


ONE = np.ones((1, 1, 1, 1), np.float32)
BAD = [(1, np.nan, np.nan), (1, np.inf, np.inf), (np.inf, 1, np.nan), (np.nan, 1, np.nan)]


@pytest.mark.parametrize("first, second, expected", BAD)
def test_scores_that_are_no_numbers(isa, first, second, expected):
    """All of the teacher's mass is on the first of two keys: p log y with y = softmax(scores)."""
    given = {
        "query": 300 * ONE,
        "key": np.array([1, -1], np.float32).reshape(1, 2, 1, 1),
        "query_index": ONE,
        "key_index": np.array([first, second], np.float32).reshape(1, 2, 1, 1),
        "weights": ONE[0],
        "sparse_indices": np.array([0, 1], np.int32).reshape(1, 1, 1, 2),
        "softmax_max": 300 * ONE,
        "softmax_sum": ONE,
        "sparse_mode": 0,
    }
    for loss in (loss_of(SPARSE, **given), dense_loss_of(**given)):
        np.testing.assert_array_equal(loss[3], np.float32([expected]))
        assert np.isnan(loss[1]).any()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_teacher_that_is_no_number(isa, bad):
    given = setting(picks=50, seed=2)
    given["query"][0, 7, 0, 0] = bad
    for loss in (loss_of(SPARSE, 0.25, **given), dense_loss_of(0.25, **given)):
        assert np.isnan(loss[3]).all()
        others = np.arange(20) != 7
        assert np.isnan(loss[0][0, 7]).any() and np.isfinite(loss[0][0, others]).all()
