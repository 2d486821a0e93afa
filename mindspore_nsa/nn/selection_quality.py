"""How much of dense attention stands on the blocks that a layer selects."""

from typing import Any, NamedTuple

import mindspore
import numpy as np
from mindspore import Tensor

# Scores that are held at a time; a document's would be many more.
_SCORES = 2**22


class SelectionQuality(NamedTuple):
    """Result of `NativeSparseAttention.selection_quality`, NumPy arrays.

    A mass is the part of the softmax over all earlier tokens that stands on some blocks, the mean
    of the heads that share a key head. All three are of as many blocks as the query selects.

    Attributes:
        selected (numpy.ndarray): Mass on the selected blocks, float32 [T, num_kv_heads].
        newest (numpy.ndarray): Mass on the newest blocks, the query's own included.
        best (numpy.ndarray): Mass on the blocks that have most of it: no selection has more.
        positions (numpy.ndarray): Position of every query in its document, int64 [T].
        choosing (numpy.ndarray): Whether a query sees more blocks than it selects, bool [T]; the
            masses of the others are 1.

    Examples:
        >>> import numpy as np
        >>> from mindspore import Tensor
        >>> from mindspore_nsa.nn import NativeSparseAttention, NSAConfig
        >>> config = NSAConfig(hidden_size=64, num_heads=4, num_kv_heads=2, head_dim=16)
        >>> x = Tensor(np.random.randn(1, 1200, 64).astype(np.float32))
        >>> quality = NativeSparseAttention(config).selection_quality(x)
        >>> print(quality.selected.shape, quality.mean()["newest"] <= quality.mean()["best"])
        (1200, 2) True
    """

    selected: np.ndarray
    newest: np.ndarray
    best: np.ndarray
    positions: np.ndarray
    choosing: np.ndarray

    def mean(self) -> dict[str, float]:
        """Mean masses of the queries that choose, a dict of floats; NaN if none does."""
        if not self.choosing.any():
            return dict.fromkeys(self._fields[:3], float("nan"))
        return {name: float(getattr(self, name)[self.choosing].mean()) for name in self._fields[:3]}


def _block_masses(query: Tensor, key: Tensor, first: Any, scale: float, block_size: int) -> Any:
    """Masses of the blocks [queries, blocks] of queries [n, G, D] at the positions from `first`."""
    count, heads, dim = query.shape
    seen = first + count
    scores = (query.reshape(-1, dim) @ key[:seen].T).reshape(count, heads, seen) * scale
    later = np.arange(seen) > first + np.arange(count)[:, None]
    scores[np.broadcast_to(later[:, None], scores.shape)] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return np.add.reduceat(weights.mean(1), np.arange(0, seen, block_size), axis=1)


def _masses(blocks: np.ndarray, masses: np.ndarray, first: int, block_size: int) -> tuple[Any, ...]:
    """(selected, newest, best, whether there is a choice) of queries from a position on.

    Args:
        blocks (numpy.ndarray): int [n, count], -1 where there are no more.
        masses (numpy.ndarray): [n, blocks].
        first (int): Position of the first query.
        block_size (int): Tokens of a block.
    """
    columns = np.arange(masses.shape[1])
    own = (first + np.arange(len(masses)))[:, None] // block_size
    chosen = (blocks[:, :, None] == columns).any(1)
    count = chosen.sum(1, keepdims=True)
    ranked = -np.sort(-masses, axis=1)
    newest = (columns <= own) & (columns > own - count)
    sums = [(masses * chosen).sum(1), (masses * newest).sum(1), (ranked * (columns < count)).sum(1)]
    return *sums, (count <= own)[:, 0]


def quality_of(
    query: Tensor, key: Tensor, blocks: Tensor, ends: Any, scale: float, block_size: int
) -> SelectionQuality:
    """The `SelectionQuality` of blocks int [T, N2, count] for query [T, N1, D] and key [T, N2, D].

    Args:
        query (Tensor): Queries of the selected branch.
        key (Tensor): Its keys.
        blocks (Tensor): Numbers of blocks within the documents.
        ends (Union[tuple[int], Tensor]): Prefix sums of the documents.
        scale (float): Factor of the scores.
        block_size (int): Tokens of a block.
    """
    query, key = (x.astype(mindspore.float32).asnumpy() for x in (query, key))
    blocks, ends = blocks.asnumpy(), [int(end) for end in ends]
    tokens, heads = blocks.shape[:2]
    group = query.shape[1] // heads
    masses = np.zeros((3, tokens, heads), np.float32)
    positions, choosing = np.zeros(tokens, np.int64), np.zeros(tokens, bool)
    for begin, end in zip([0, *ends[:-1]], ends):
        step = max(1, _SCORES // (group * max(1, end - begin)))
        positions[begin:end] = np.arange(end - begin)
        for at in range(begin, end, step):
            rows, first = slice(at, min(at + step, end)), at - begin
            for head in range(heads):
                queries = query[rows, head * group : (head + 1) * group]
                of_blocks = _block_masses(queries, key[begin:end, head], first, scale, block_size)
                *sums, choice = _masses(blocks[rows, head], of_blocks, first, block_size)
                masses[:, rows, head] = sums
                choosing[rows] |= choice
    selected, newest, best = masses
    return SelectionQuality(selected, newest, best, positions, choosing)
