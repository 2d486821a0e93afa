import numpy as np
import pytest

from mindspore_nsa.reference.importance import (
    block_scores,
    candidates_and_forced,
    num_blocks,
    top_blocks,
)


@pytest.mark.parametrize("kind, first", [("overlap", 11), ("cann", 12)])
def test_table_of_the_specification(kind, first):
    # l=32, s=16, l'=64, block 3: the weights of the compressed tokens, one at a time.
    weights = [block_scores(p, 6, 4, 2, kind)[3] for p in np.eye(20)]
    expected = np.zeros(20)
    expected[first : first + 5] = [1, 2, 2, 2, 1]
    np.testing.assert_array_equal(weights, expected)


def pieces_inside(c, j, l, s, select):  # noqa: E741
    """Stride-sized pieces of compressed token c that lie in selection block j."""
    pieces = range(c * s, c * s + l, s)
    return sum(j * select <= start < (j + 1) * select for start in pieces)


@pytest.mark.parametrize("l, s, select", [(32, 16, 64), (16, 16, 16), (6, 2, 6), (4, 1, 5)])
def test_overlap_counts_pieces(l, s, select):  # noqa: E741
    tokens = 13
    blocks = num_blocks(tokens, 0, select // s, l // s, "overlap", False, 0, select)
    for c, p in enumerate(np.eye(tokens)):
        scores = block_scores(p, blocks, select // s, l // s, "overlap")
        expected = [pieces_inside(c, j, l, s, select) for j in range(blocks)]
        np.testing.assert_array_equal(scores, expected)
        # The number of blocks is just enough for every piece.
        assert scores.sum() == l // s


@pytest.mark.parametrize(
    "compressed, kind, causal, expected",
    [
        (8, "cann", False, 2),
        (9, "cann", False, 3),
        (8, "overlap", False, 3),
        (7, "overlap", False, 2),
        (0, "cann", False, 0),
        (0, "overlap", False, 0),
        (1, "overlap", False, 1),
        (8, "cann", True, 4),  # ceil((100 + 130) / 64)
    ],
)
def test_number_of_blocks(compressed, kind, causal, expected):
    assert num_blocks(compressed, 130, 4, 2, kind, causal, 100, 64) == expected


def test_unknown_convention():
    with pytest.raises(ValueError, match="importance"):
        block_scores(np.ones(4), 1, 2, 1, "paper")


def test_order_of_the_chosen():
    scores = np.array([[0.5, 0.9, 0.5, 0.0, 0.9, np.nan, 0.1]])
    candidate = np.array([[1, 1, 1, 1, 1, 1, 0]], bool)
    forced = np.array([[0, 0, 0, 1, 0, 0, 0]], bool)
    chosen = top_blocks(scores, candidate, forced, 8)
    np.testing.assert_array_equal(chosen, [[3, 1, 4, 0, 2, 5, -1, -1]])
    assert chosen.dtype == np.int32
    np.testing.assert_array_equal(top_blocks(scores, candidate, forced, 2), [[3, 1]])


def test_more_forced_than_wanted():
    forced = np.array([[0, 1, 1, 1]], bool)
    chosen = top_blocks(np.array([[9.0, 1, 2, 3]]), np.ones((1, 4), bool), forced, 2)
    np.testing.assert_array_equal(chosen, [[1, 2]])


def test_no_blocks_at_all():
    nothing = np.zeros((2, 0))
    chosen = top_blocks(nothing, nothing.astype(bool), nothing.astype(bool), 3)
    np.testing.assert_array_equal(chosen, np.full((2, 3), -1))


def test_causal_candidates_and_forced_blocks():
    topk_mask = np.zeros((6, 9), np.uint8)
    topk_mask[0, 4] = 1  # in the future of query 0: not forced
    topk_mask[4, 1] = 1
    candidate, forced = candidates_and_forced(
        5, 3, causal=True, q_offset=1, select_block_size=2, init_blocks=1, local_blocks=1,
        topk_mask=topk_mask,
    )  # fmt: skip
    # Positions 1 ... 5 own the blocks 0, 1, 1, 2, 2.
    np.testing.assert_array_equal(candidate, [[1, 0, 0], [1, 1, 0], [1, 1, 0], [1, 1, 1],
                                              [1, 1, 1]])  # fmt: skip
    np.testing.assert_array_equal(forced, [[1, 0, 0], [1, 1, 0], [1, 1, 0], [1, 0, 1], [1, 1, 1]])


def test_without_causal_every_block_is_a_candidate():
    mask = np.array([[0, 1, 0]], bool)
    candidate, forced = candidates_and_forced(
        1, 2, causal=False, q_offset=0, select_block_size=2, topk_mask=mask
    )
    assert candidate.all()
    np.testing.assert_array_equal(forced, [[0, 1]])
