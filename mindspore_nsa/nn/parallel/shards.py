"""The part of a text that a worker of a context group has, and the way of a whole one to it."""

from typing import Any, NamedTuple

import mindspore
import numpy as np
from mindspore import Tensor

from ...ops._plan import fail_type
from ..config import NSAConfig
from ..packing import check_ends, is_int
from .collectives import agree
from .groups import WorkerGroup
from .plan import ORDERS, Documents, Layout
from .shard_lists import ContextLists, documents_lists


class TokenText(NamedTuple):
    """Sizes of a layer whose queries read single tokens, for its lists: it needs no borders.

    Attributes:
        hidden_size: Width of x.
        layer: What has to agree between the workers.
        compress_block_size, compress_stride, window_size: As those of an NSAConfig.
    """

    hidden_size: int
    layer: str
    compress_block_size: int = 1
    compress_stride: int = 1
    window_size: int = 1


def _cut(x: Tensor, axis: int) -> Any:
    shape = x.shape
    return shape[axis] if -len(shape) <= axis < len(shape) else None


class ContextShards:
    r"""Which tokens of a text each worker of a context group has.

    In contiguous order worker :math:`r` of :math:`R` has the tokens from :math:`r T / R` on. In
    head-tail order the text is cut in :math:`2 R` chunks, of which it has numbers :math:`r` and
    :math:`2 R - 1 - r`, so that all workers have the same number of earlier tokens to look at.

    Args:
        tokens (int): Tokens :math:`T` of the whole packed text, or :math:`S` of every document of
            a batch; a multiple of :math:`R`, or of :math:`2 R` in head-tail order.
        group (WorkerGroup): The workers that share it, `parallel_groups(...).context`.
        order (str, optional): ``"contiguous"`` or ``"head_tail"``. Default: ``"contiguous"``.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `tokens` is no such multiple, or `order` another word, or if they differ
            between the workers.

    Supported Platforms:
        ``CPU`` ``Ascend``

    Examples:
        >>> import numpy as np
        >>> from mindspore_nsa import nn
        >>> shards = nn.ContextShards(8, nn.parallel_groups().context)
        >>> print(shards.pad((3, 6)), shards.positions((3, 6, 8)))
        (3, 6, 8) [0 1 2 0 1 2 0 1]
    """

    def __init__(self, tokens: int, group: Any, order: str = "contiguous") -> None:
        name = type(self).__name__
        if not is_int(tokens):
            fail_type(name, "tokens", "an int", tokens)
        if not isinstance(group, WorkerGroup):
            fail_type(name, "group", "a WorkerGroup, made by parallel_groups", group)
        if not isinstance(order, str):
            fail_type(name, "order", "a str", order)
        if order not in ORDERS:
            raise ValueError(f"{name}: order must be one of {', '.join(ORDERS)}, got {order!r}")
        agree(name, "tokens, order", [int(tokens), order], group)
        chunks = group.size * (2 if order == "head_tail" else 1)
        if tokens < 1 or tokens % chunks:
            enough = max(1, -(-int(tokens) // chunks)) * chunks
            raise ValueError(
                f"{name}: tokens must be a positive multiple of {chunks} ({group.size} workers, "
                f"order {order}), got {tokens} (pad: {enough} tokens, the added ones a document of "
                "their own)"
            )
        self.tokens, self.group, self.order = int(tokens), group, order
        self.layout = Layout(self.tokens, group.size, order)

    @property
    def key(self) -> tuple[Any, ...]:
        """Numbers that a plan depends on."""
        return self.tokens, self.group.size, self.group.rank, self.order

    def _check_length(self, function: str, x: Tensor, axis: int, expected: int) -> None:
        if not isinstance(x, (np.ndarray, Tensor)):
            fail_type(f"ContextShards.{function}", "x", "a Tensor or NumPy array", x)
        if not is_int(axis):
            fail_type(f"ContextShards.{function}", "axis", "an int", axis)
        if _cut(x, axis) != expected:
            raise ValueError(
                f"ContextShards.{function}: x must have {expected} tokens along axis {axis}, got "
                f"shape {tuple(x.shape)}"
            )

    def shard(self, x: Any, axis: int = 0) -> Tensor | np.ndarray:
        """The own part of inputs, labels or weights of a loss.

        Labels are shifted before: a token's successor may be another worker's.

        Args:
            x (Union[Tensor, numpy.ndarray]): All `tokens` along `axis`.
            axis (int, optional): 0 for a packed text, 1 for a batch. Default: ``0``.

        Returns:
            Tensor or numpy.ndarray like `x`, with `tokens` / R along `axis`.

        Raises:
            TypeError: If an argument has the wrong type.
            ValueError: If `x` has another number of tokens.
        """
        self._check_length("shard", x, axis, self.tokens)
        rows = self.layout.rows(self.group.rank)
        if isinstance(x, np.ndarray):
            return x.take(rows, axis)
        # MindSpore's own way of rows by number knows fewer dtypes.
        whole = x.astype(mindspore.float32) if x.dtype == mindspore.bfloat16 else x
        return Tensor(whole.asnumpy().take(rows, axis)).astype(x.dtype)

    def unshard(self, parts: Any, axis: int = 0) -> Tensor | np.ndarray:
        """The whole again, from the parts of all workers.

        Args:
            parts (Sequence[Union[Tensor, numpy.ndarray]]): The own part of every worker, in order.
            axis (int, optional): As for `shard`. Default: ``0``.

        Returns:
            Tensor or numpy.ndarray like the parts, with all `tokens` along `axis`.

        Raises:
            TypeError: If an argument has the wrong type.
            ValueError: If there are not as many parts as workers, or one has another length.
        """
        if not isinstance(parts, (tuple, list)):
            fail_type("ContextShards.unshard", "parts", "a tuple or list", parts)
        if len(parts) != self.group.size:
            raise ValueError(
                f"ContextShards.unshard: parts must be those of {self.group.size} workers, got "
                f"{len(parts)}"
            )
        for part in parts:
            self._check_length("unshard", part, axis, self.tokens // self.group.size)
        dtype = parts[0].dtype
        narrow = dtype == mindspore.bfloat16
        arrays = [
            p if isinstance(p, np.ndarray) else (p.float() if narrow else p).asnumpy()
            for p in parts
        ]
        whole = np.concatenate(arrays, axis).take(self.layout.places(np.arange(self.tokens)), axis)
        return whole if isinstance(parts[0], np.ndarray) else Tensor(whole).astype(dtype)

    def pad(self, ends: tuple[int, ...] | list[int]) -> tuple[int, ...]:
        """Prefix sums of documents with one more, which fills the text up to `tokens`.

        Its tokens may be any; in the loss they have the weight 0. It is empty where nothing is
        missing, so that the list always grows by one.

        Args:
            ends (Union[tuple[int], list[int]]): Inclusive prefix sums of the documents' lengths.

        Returns:
            tuple[int].

        Raises:
            TypeError: If `ends` are not ints.
            ValueError: If they decrease, or if there are more than `tokens`.
        """
        if not isinstance(ends, (tuple, list)):
            fail_type("ContextShards.pad", "ends", "a tuple or list of ints", ends)
        check_ends("ContextShards.pad", ends, -1, "ends")
        if ends[-1] > self.tokens:
            raise ValueError(
                f"ContextShards.pad: ends must be at most the {self.tokens} tokens, got {ends[-1]}"
            )
        return (*map(int, ends), self.tokens)

    def positions(self, ends: tuple[int, ...] | list[int]) -> Any:
        """Positions of the own tokens in their documents, int32 [tokens / R], a NumPy array.

        Args:
            ends (Union[tuple[int], list[int]]): Inclusive prefix sums of the documents' lengths;
                the last one is `tokens`.
        """
        ends = self._ends("positions", ends)
        return Documents(self.layout, self.group.rank, ends).positions

    def _ends(self, function: str, ends: Any) -> tuple[Any, ...]:
        if isinstance(ends, (np.ndarray, Tensor)) and len(ends.shape) == 1:
            ends = tuple(ends.tolist())
        if not isinstance(ends, (tuple, list)):
            fail_type(f"ContextShards.{function}", "ends", "a tuple, list or Tensor of ints", ends)
        check_ends(f"ContextShards.{function}", ends, self.tokens, "ends")
        return tuple(map(int, ends))

    def lists(self, ends: Any, config: Any) -> Any:
        """Make what a layer takes in place of `actual_seq_len`: one graph serves all documents.

        The Tensors have the same shapes for all texts with the same number of documents; a list
        with fewer repeats its last value.

        Args:
            ends (Union[tuple[int], list[int], Tensor, numpy.ndarray]): Inclusive prefix sums of the
                documents' lengths; the last one is `tokens`.
            config (Union[NSAConfig, Cell]): That of the layer, or a layer of `mindspore_nsa.models`
                with a context.

        Returns:
            ContextLists, a tuple of Tensors.

        Raises:
            TypeError: If an argument has the wrong type.
            ValueError: If `ends` are no prefix sums of `tokens`.
        """
        ends = self._ends("lists", ends)
        config = getattr(config, "shared_text", config)
        if not isinstance(config, (NSAConfig, TokenText)):
            fail_type("ContextShards.lists", "config", "an NSAConfig", config)
        arrays = documents_lists(self.layout, self.group.rank, ends, context_sizes(config), True)
        return ContextLists(map(Tensor, arrays))


def context_sizes(config: NSAConfig | TokenText) -> tuple[Any, ...]:
    """(l, s, w, text) of a configuration: what lists depend on, and all that has to agree."""
    return (
        config.compress_block_size,
        config.compress_stride,
        config.window_size,
        repr(config),
    )
