"""NsaCompressAttention in Ascend C, on the twin, against the float64 reference."""

import numpy as np
import pytest

from mindspore_nsa.testing.dtypes import decode
from tests.common.cases import compare
from tests.common.draw import Draw
from tests.common.parity import causal_compress_attention, compress_attention

from .attention_checks import CALLS, calls_of, check_call
from .compress_attention_cases import DTYPES, accepted, blocks_of, make_case, parity
from .launch import raw

CONFIGURATIONS = 90
CHUNK = 30


@pytest.mark.parametrize("name", parity())
def test_parity(compress_attention_runner, name):
    case = parity()[name]()
    if accepted(case):
        check_call(compress_attention_runner, case, CALLS)


@pytest.mark.parametrize("first", range(0, CONFIGURATIONS, CHUNK))
def test_random_configurations(compress_attention_runner, first):
    for number in range(first, first + CHUNK):
        check_call(compress_attention_runner, make_case(number), calls_of(number))


def test_the_cases_cover_what_matters():
    """Both kinds of importance, masks, windows, lists that are not filled, empty segments."""
    cases = [make_case(number) for number in range(CONFIGURATIONS)]
    attrs, inputs = [case.attrs for case in cases], [case.named() for case in cases]
    assert {a["importance"] for a in attrs} == {"cann", "overlap"}
    assert {a["causal"] for a in attrs} == {0, 1}
    for name in ("atten_mask", "topk_mask", "q_offset"):
        assert sum(x[name] is not None for x in inputs) > 10, name
    for name in ("init_blocks", "local_blocks"):
        assert sum(a[name] > 0 for a in attrs) > 10, name
    groups = {raw(x["query"]).shape[1] // raw(x["key"]).shape[1] for x in inputs}
    assert groups >= {1, 2, 3, 4, 16, 24, 64}
    assert sum(raw(x["value"]).shape[2] < raw(x["query"]).shape[2] for x in inputs) > 10
    given = [case for case in cases if case.named()["actual_cmp_seq_kvlen"] is not None]
    counts = [case.attrs["select_block_count"] for case in given]
    assert sum(min(blocks_of(c)) < n for c, n in zip(given, counts, strict=True)) > 20
    lengths = [np.diff([0, *case.named()["actual_cmp_seq_kvlen"]]) for case in given]
    assert sum(n.max() > 4096 for n in lengths) >= 2 and sum(n.min() == 0 for n in lengths) > 10
    assert sum(0 in np.diff([0, *x["actual_seq_qlen"]]) for x in inputs) > 10


@pytest.mark.parametrize(("d", "dv", "n1", "n2"), [(256, 256, 4, 2), (208, 144, 3, 1)])
def test_long_head_dimensions(compress_attention_runner, d, dv, n1, n2):
    """Values come in two panels then."""
    case = causal_compress_attention(
        Draw(d, "bfloat16"), [300, 301, 700], n1, n2, d, dv, count=4, init=1, local=2
    )
    check_call(compress_attention_runner, case, [(2, 0), (7, 1)])


def test_the_largest_group(compress_attention_runner):
    """A tile is one query, and one of the two vector cores has nothing to do."""
    case = causal_compress_attention(Draw(9, "float16"), [70], 128, 1, 32, 32, count=2, local=1)
    check_call(compress_attention_runner, case, [(2, 0), (24, 1)])


@pytest.mark.parametrize("scale", [0.0, -0.25])
def test_scales_that_are_not_positive(compress_attention_runner, scale):
    """Hidden keys stay hidden; with a scale of 0 the keys that a query sees count the same."""
    case = causal_compress_attention(Draw(7, "float16"), [300, 301], 6, 2, 32, 32, count=4)
    case.attrs["scale_value"] = scale
    check_call(compress_attention_runner, case, [(2, 0), (7, 1)])


def test_queries_whose_lists_differ(compress_attention_runner):
    """The last of the queries that are ranked together have a block more, which begins another list
    of 32, and another window of 64."""
    offsets = np.array([16 * 32 - 2, 16 * 64 - 2])
    keys = np.cumsum((offsets + 8) // 16)
    case = compress_attention(
        *(Draw(13, "float16"), [8, 16], keys, None, 32, 2, 32, 32),
        **{"l": 16, "s": 16, "select": 16, "count": 4, "local": 1, "causal": True},
    )
    inputs = {**case.named(), "q_offset": offsets}
    case = case.of("NsaCompressAttention", inputs, case.attrs, case.dtype)
    check_call(compress_attention_runner, case, [(2, 0), (7, 1)])


def test_lists_behind_which_older_ones_lie(compress_attention_runner):
    """More than 32 blocks of more than 128: the last merged list is shorter than the others, and
    shorter than that of the query before. All of it is better than what the others have."""
    keys, better, draw = [896, 896 + 640], 512, Draw(14, "float16")
    case = compress_attention(draw, [1, 2], keys, None, 64, 1, 64, 64, count=40)
    direction = draw.rng.choice(np.array([-0.5, 0.5], np.float16), 64)
    case.named()["query"][:] = 2 * direction
    case.named()["key"][:] = -direction
    for first, end in ((better, keys[0]), (keys[0] + better, keys[1])):
        case.named()["key"][first:end] = direction
    check_call(compress_attention_runner, case, [(1, 0), (2, 1)])


def test_more_keys_than_cann_takes(compress_attention_runner):
    """15,000 compressed tokens, and more blocks asked for than a short segment has."""
    draw = Draw(4, "float16")
    case = compress_attention(draw, [2, 5], [15000, 15020], None, 2, 1, 16, 16, count=40)
    outputs, _ = compress_attention_runner.run(case, 2)
    compare(case, outputs)
    indices = outputs[1]
    assert (indices[:2] >= 0).all() and indices[:2].max() < 3750
    assert (indices[2:, :, :5] >= 0).all() and (indices[2:, :, 5:] == -1).all()


def test_segments_are_independent(compress_attention_runner):
    """A segment alone gives the bits that it gives among others."""
    ends = [150, 150, 420]
    case = causal_compress_attention(Draw(3, "float16"), ends, 4, 2, 64, 48, count=5, init=1)
    together, _ = compress_attention_runner.run(case, 7)
    x = case.named()
    alone = case.of(
        "NsaCompressAttention",
        {
            "query": x["query"][150:],
            "key": x["key"][x["actual_cmp_seq_kvlen"][1] :],
            "value": x["value"][x["actual_cmp_seq_kvlen"][1] :],
            "actual_seq_qlen": np.array([270]),
            "actual_cmp_seq_kvlen": np.diff(x["actual_cmp_seq_kvlen"])[1:],
        },
        case.attrs,
        case.dtype,
    )
    for a, b in zip(together, compress_attention_runner.run(alone, 2)[0], strict=True):
        assert np.array_equal(raw(a)[150:], raw(b))


def test_later_tokens_change_nothing(compress_attention_runner):
    case = causal_compress_attention(Draw(8, "float16"), [400], 4, 2, 32, 32, count=4)
    before, _ = compress_attention_runner.run(case, 2)
    x = case.named()
    # Compressed token 12 ends with token 12 * 16 + 31.
    for name in ("key", "value"):
        x[name][12:] *= np.float16(0.5)
    after, _ = compress_attention_runner.run(case, 2)
    for a, b in zip(before, after, strict=True):
        assert np.array_equal(raw(a)[:223], raw(b)[:223])
    assert not np.array_equal(raw(before[0])[223:], raw(after[0])[223:])


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_nan_reaches_what_sees_it(compress_attention_runner, dtype):
    """NaN in a query or a key: outputs, and blocks, whose NaN scores rank last."""
    for name, place, heads in (("query", (180, 1, 3), [1]), ("key", (7, 1, 3), [2, 3])):
        case = causal_compress_attention(Draw(5, dtype), [100, 400], 4, 2, 64, 64, count=6)
        clean, _ = compress_attention_runner.run(case, 2)
        tensor = case.named()[name]
        if isinstance(tensor, tuple):
            tensor[1][place] = 0x7FC0
        else:
            tensor[place] = np.nan
        case.memo.clear()
        dirty, _ = compress_attention_runner.run(case, 2)
        # The maximum of such a row is that of its other scores.
        out, indices, row_max, row_sum = dirty
        compare(case, [out, indices, np.where(np.isnan(row_sum), np.nan, row_max), row_sum])
        a, b = decode(clean[0]), decode(dirty[0])
        touched = np.isnan(b)
        assert np.array_equal(a[~touched], b[~touched])
        assert set(np.argwhere(touched)[:, 1]) == set(heads)
        rows = np.unique(np.argwhere(touched)[:, 0])
        # Key 7 is the second of the second segment, whose last token is 100 + 1 * 16 + 31.
        first = 180 if name == "query" else 100 + 16 * (7 - 5) + 31
        assert rows.tolist() == ([180] if name == "query" else list(range(first, 400)))


def test_a_nan_leaves_hidden_blocks_alone(compress_attention_runner):
    """Blocks of hidden keys score 0, also the last one, which ends behind the last key."""
    keys, first_hidden, row = 70, 64, 5
    hidden = np.zeros((20, keys), np.uint8)
    hidden[row, first_hidden:] = 1
    case = compress_attention(
        Draw(6, "float16"), [20], [keys], None, 1, 1, 32, 32, count=3, atten_mask=hidden
    )
    case.named()["query"][row] = np.nan
    (out, indices, row_max, row_sum), _ = compress_attention_runner.run(case, 2)
    compare(case, [out, indices, np.where(np.isnan(row_sum), np.nan, row_max), row_sum])
    # Blocks 16 and 17 begin with the keys 64 and 68; all others score NaN.
    assert indices[row, 0].tolist() == [16, 17, 0]


@pytest.mark.parametrize("importance", ("cann", "overlap"))
def test_keys_between_blocks(compress_attention_runner, importance):
    """A query that sees one key, the first of a block: of cann it counts for the one before, too,
    also where that ends a window of blocks."""
    draw = Draw(11, "float16")
    blocks, each = 150, 4
    case = compress_attention(
        *(draw, [blocks - 1], [each * blocks], None, 1, 1, 64, 64),
        count=2,
        importance=importance,
    )
    key = draw.rng.choice(np.array([-1, 1], np.float16), (each * blocks, 1, 64))
    case.named()["key"][:] = key
    case.named()["query"][:] = 4 * key[each::each]
    outputs, _ = compress_attention_runner.run(case, 2)
    compare(case, outputs)
    if importance == "cann":
        both = np.arange(blocks - 1)[:, None] + [0, 1]
        assert np.array_equal(np.sort(outputs[1][:, 0]), both)


def test_queries_that_see_nothing(compress_attention_runner):
    """Nor their tile: 128 queries of a head, 160 tokens to a compressed one."""
    case = causal_compress_attention(
        Draw(2, "float16"), [300], 2, 2, 32, 32, l=160, s=160, select=160, count=3, local=1
    )
    (out, indices, row_max, row_sum), _ = compress_attention_runner.run(case, 2)
    largest = np.finfo(np.float32).max
    assert (out[:159] == 0).all() and (out[159:] != 0).any(axis=-1).all()
    assert (row_max[:159] == -largest).all() and (row_sum[:159] == largest).all()
    assert (indices[:160, :, 0] == 0).all() and (indices[:160, :, 1:] == -1).all()
    compare(case, [out, indices, row_max, row_sum])


@pytest.mark.parametrize(("keys", "sweeps"), [(512, 1), (1024, 2)])
def test_bytes_and_products(compress_attention_runner, keys, sweeps):
    """Per tile every key and value is read once, the scores once, or twice where a row is longer
    than a step; nothing else that counts."""
    queries, heads, dim = 32, 8, 64
    case = compress_attention(
        Draw(0, "float16"), [queries], [keys], None, heads, 1, dim, dim, count=4
    )
    _, counts = compress_attention_runner.run(case, 2)
    rows = queries * heads
    tiles = rows // 128
    tensors = (rows + tiles * 2 * keys) * dim * 2
    handed_over = rows * keys * (sweeps * 4 + 2)
    lists = 2 * 8
    assert 0 <= counts.gm_read - tensors - handed_over < 100 * lists
    results = rows * (dim * 2 + 2 * 32) + queries * 4 * 4
    assert counts.gm_written == rows * keys * (4 + 2) + results
    # 16 x 16 x 16 a repeat, two products.
    assert counts.repeats["M"] == 2 * rows * keys * dim // 4096
