"""A text cut for workers and put together again, and what each function refuses, in one process."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from mindspore_nsa import nn
from mindspore_nsa.nn.parallel import shards as module
from mindspore_nsa.nn.parallel.plan import ORDERS

WORKERS, TOKENS = 4, 24
ENDS = (0, 5, 5, 17, 24)


@pytest.fixture
def of_all(monkeypatch):
    """A function of an order that gives the shards of every worker, who agree."""
    monkeypatch.setattr(module, "agree", lambda *_: None)

    def make(order):
        groups = [nn.WorkerGroup("", tuple(range(WORKERS)), r, True) for r in range(WORKERS)]
        return [nn.ContextShards(TOKENS, group, order) for group in groups]

    return make


def rows_of(order, rank):
    """The tokens of a worker: a chunk of each pass."""
    chunk = TOKENS // WORKERS
    if order == "contiguous":
        return [*range(rank * chunk, (rank + 1) * chunk)]
    half, other = chunk // 2, 2 * WORKERS - 1 - rank
    return [i * half + j for i in (rank, other) for j in range(half)]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", ["numpy", "float32", "bfloat16", "int32"])
def test_parts_and_the_whole(of_all, order, axis, dtype):
    shards = of_all(order)
    shape = (TOKENS, 2) if axis == 0 else (3, TOKENS, 2)
    # Integers that float32 does not hold.
    first = 2**24 + 1 if dtype == "int32" else 0
    array = np.arange(first, first + np.prod(shape), dtype=np.int32).reshape(shape)
    x = array if dtype == "numpy" else Tensor(array).astype(getattr(ms, dtype))
    parts = [one.shard(x, axis) for one in shards]
    for rank, part in enumerate(parts):
        found = part if dtype == "numpy" else part.astype(ms.int32).asnumpy()
        np.testing.assert_array_equal(found, array.take(rows_of(order, rank), axis))
    whole = shards[1].unshard(parts, axis)
    assert whole.dtype == x.dtype and type(whole) is type(x)
    found = whole if dtype == "numpy" else whole.astype(ms.int32).asnumpy()
    np.testing.assert_array_equal(found, array)


def test_one_worker_with_one_token():
    one = nn.ContextShards(1, nn.parallel_groups().context)
    for x in (np.ones((1, 2), np.float32), Tensor(np.ones((1, 2), np.float32))):
        whole = one.unshard([one.shard(x)])
        assert type(whole) is type(x) and whole.tolist() == [[1, 1]]


@pytest.mark.parametrize("order", ORDERS)
def test_positions(of_all, order):
    """From 0 on in every document, empty ones among them."""
    every = np.concatenate([np.arange(n) for n in np.diff(ENDS, prepend=0)])
    for rank, one in enumerate(of_all(order)):
        for ends in (ENDS, list(ENDS), np.array(ENDS), Tensor(ENDS, ms.int64)):
            found = one.positions(ends)
            assert found.dtype == np.int32
            assert found.tolist() == every[rows_of(order, rank)].tolist()


def test_a_last_document_fills_the_text(of_all):
    """Also an empty one, where nothing is missing."""
    one = of_all("contiguous")[0]
    for end in (0, 5, TOKENS - 1, TOKENS):
        assert one.pad((3, end) if end > 3 else (end,)) == (*((3,) * (end > 3)), end, TOKENS)
    with pytest.raises(ValueError, match=f"pad: ends must be at most the 24 tokens, got {end + 1}"):
        one.pad((3, TOKENS + 1))


X = np.zeros((TOKENS, 2), np.float32)
PART = np.zeros((TOKENS // WORKERS, 2), np.float32)
WRONG = {
    "shard": [
        ((X.tolist(),), TypeError, "x must be a Tensor or NumPy array, got"),
        ((X, 0.0), TypeError, "axis must be an int, got 0.0"),
        ((X, True), TypeError, "axis must be an int, got True"),
        ((X[1:],), ValueError, r"x must have 24 tokens along axis 0, got shape \(23, 2\)"),
        ((X, 1), ValueError, r"x must have 24 tokens along axis 1, got shape \(24, 2\)"),
        ((X, 2), ValueError, "x must have 24 tokens along axis 2"),
    ],
    "unshard": [
        ((X,), TypeError, "parts must be a tuple or list, got"),
        (([PART] * 3,), ValueError, "parts must be those of 4 workers, got 3"),
        (([PART] * 5,), ValueError, "parts must be those of 4 workers, got 5"),
        (([PART] * 3 + [PART[1:]],), ValueError, "x must have 6 tokens along axis 0"),
        (([PART] * 3 + [3],), TypeError, "x must be a Tensor or NumPy array, got 3"),
        (([PART] * 4, None), TypeError, "axis must be an int, got None"),
    ],
    "pad": [
        ((24,), TypeError, "ends must be a tuple or list of ints, got 24"),
        (
            ((5, 3),),
            ValueError,
            "ends must be non-negative and not decrease .*got 3 after 5 at index 1",
        ),
        (((5, 7.0),), TypeError, "ends must hold ints, got 7.0 .*at index 1"),
        (((25,),), ValueError, "ends must be at most the 24 tokens, got 25"),
    ],
    "positions": [
        ((24,), TypeError, "ends must be a tuple, list or Tensor of ints, got 24"),
        (((5, 23),), ValueError, "the last value of the prefix sums ends must be the 24 .*got 23"),
        (((5, 25),), ValueError, "the last value of the prefix sums ends must be the 24 .*got 25"),
        ((np.array([[24]]),), TypeError, "ends must be a tuple, list or Tensor of ints"),
    ],
    "lists": [
        ((ENDS, 3), TypeError, "config must be an NSAConfig, got 3"),
        (
            ((5, 23), 3),
            ValueError,
            "the last value of the prefix sums ends must be the 24 .*got 23",
        ),
    ],
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments(of_all, name):
    one = of_all("head_tail")[2]
    for arguments, error, text in WRONG[name]:
        with pytest.raises(error, match=rf"ContextShards.{name}: {text}"):
            getattr(one, name)(*arguments)


GROUP = nn.WorkerGroup("", (0, 1), 0, True)
WRONG_SHARDS = [
    ((24.0, GROUP), TypeError, "tokens must be an int, got 24.0"),
    ((24, (0, 1)), TypeError, "group must be a WorkerGroup, made by parallel_groups, got"),
    ((24, GROUP, 3), TypeError, "order must be a str, got 3"),
    ((24, GROUP, "tail"), ValueError, "order must be one of contiguous, head_tail, got 'tail'"),
    ((0, GROUP), ValueError, r"tokens must be a positive multiple of 2 .*got 0 \(pad: 2 tokens"),
    ((-2, GROUP), ValueError, r"positive multiple of 2 .*got -2 \(pad: 2 tokens"),
    ((26, GROUP, "head_tail"), ValueError, r"multiple of 4 \(2 workers.*got 26 \(pad: 28 tokens"),
]


@pytest.mark.parametrize("arguments, error, text", WRONG_SHARDS)
def test_wrong_shards(monkeypatch, arguments, error, text):
    monkeypatch.setattr(module, "agree", lambda *_: None)
    with pytest.raises(error, match=f"ContextShards: .*{text}"):
        nn.ContextShards(*arguments)
