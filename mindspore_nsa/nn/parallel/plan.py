"""Which tokens each worker of a context group has, and the lists by which it computes its part.

Plain NumPy, without workers. A text of `length` tokens is cut into chunks of equal size, one of
each worker in every pass: in contiguous order there is one pass, in which worker r has chunk r; in
head-tail order there are two of 2R chunks, in which it has r and 2R - 1 - r. A batch is that many
documents, each cut like a text. A worker's own rows lie by pass, then document, then token.

Letters: T tokens of the whole, L = T / R own ones, m of a chunk, w the window, l and s block size
and stride of the compression. Chunks are half-open ranges of rows [a, a + m) of the whole.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

ORDERS = ("contiguous", "head_tail")


@dataclass(frozen=True)
class Layout:
    """Who has which of `batch` documents' rows, each of `length` tokens, numbered through."""

    length: int
    workers: int
    order: str
    batch: int = 1

    @property
    def passes(self) -> int:
        """Chunks that a worker has of a document."""
        return 2 if self.order == "head_tail" else 1

    @property
    def chunk(self) -> Any:
        """Tokens m of a chunk."""
        return self.length // (self.passes * self.workers)

    @property
    def own(self) -> Any:
        """Rows L of a worker."""
        return self.batch * self.length // self.workers

    @property
    def tokens(self) -> Any:
        """Rows T of all workers."""
        return self.batch * self.length

    def begins(self, worker: int) -> Any:
        """First row a of a worker's chunks, int64 [passes, batch]."""
        numbers = [worker, 2 * self.workers - 1 - worker][: self.passes]
        documents = np.arange(self.batch) * self.length
        return np.asarray(numbers, np.int64)[:, None] * self.chunk + documents

    def rows(self, worker: int) -> Any:
        """The rows of a worker in the order in which they lie, int64 [L]."""
        return (self.begins(worker)[..., None] + np.arange(self.chunk)).reshape(-1)

    def split(self, rows: Any) -> tuple[Any, ...]:
        """(worker, number of the chunk among its own, place in the chunk) of rows of the whole."""
        document, token = np.divmod(np.asarray(rows, np.int64), self.length)
        number, place = np.divmod(token, self.chunk)
        tail = number >= self.workers
        worker = np.where(tail, 2 * self.workers - 1 - number, number)
        return worker, tail * self.batch + document, place

    def places(self, rows: Any) -> Any:
        """Where rows of the whole stand among those of all workers, one worker after another."""
        worker, chunk, place = self.split(rows)
        return worker * self.own + chunk * self.chunk + place

    @cached_property
    def text_order(self) -> Any:
        """`places` of all rows; None where they stand in order."""
        rows = np.arange(self.tokens)
        places = self.places(rows)
        return None if np.array_equal(places, rows) else places


@dataclass(frozen=True)
class Halo:
    """Rows of other workers beside each own chunk.

    Every worker gives the rows `given` of its own. `taken` numbers rows of (own ones, those that it
    got, one worker after another); -1 stands for a row that is not in the chunk's document, whose
    values mean nothing and whose gradient is 0.
    """

    given: np.ndarray  # int64 [n]
    taken: np.ndarray  # int64 [chunks * (before + m + after)]
    # How many of `given` go to every worker, and how many come from each; None: all get all.
    sent: tuple[int, ...] | None = None
    received: tuple[int, ...] | None = None

    @property
    def readable(self) -> Any:
        """`taken` with a row that exists in place of every -1."""
        return np.maximum(self.taken, 0)


def _beside(layout: "Layout", worker: int, before: Any, after: Any) -> Any:
    """Rows of the whole beside own chunks, [chunks, before + after]; -1: of another text."""
    begins = layout.begins(worker).reshape(-1, 1)
    rows = begins + np.concatenate([np.arange(-before, 0), layout.chunk + np.arange(after)])
    inside = (rows >= 0) & (rows // layout.length == begins // layout.length)
    return np.where(inside, rows, -1)


def _with_own(layout: "Layout", borders: Any, before: Any) -> Any:
    """Put the numbers of own rows between those before and after each chunk."""
    own = np.arange(len(borders) * layout.chunk).reshape(len(borders), -1)
    return np.concatenate([borders[:, :before], own, borders[:, before:]], 1).reshape(-1)


def halo(layout: "Layout", worker: int, before: int = 0, after: int = 0) -> Any:
    """The `Halo` of that many rows before, or after, every own chunk; all get all borders."""
    m, chunks = layout.chunk, layout.passes * layout.batch
    size = min(m, max(before, after))
    first = m - size if before else 0
    given = np.arange(chunks)[:, None] * m + first + np.arange(size)
    rows = _beside(layout, worker, before, after)
    owner, chunk, place = layout.split(np.maximum(rows, 0))
    borders = layout.own + (owner * chunks + chunk) * size + place - first
    taken = _with_own(layout, np.where(rows < 0, -1, borders), before)
    return Halo(given.reshape(-1), taken)


def neighbours(layout: "Layout", worker: int, before: int = 0, after: int = 0) -> Any:
    """The same, where a worker gets what it needs only.

    One that would send or receive nothing sends itself a row, so that no exchange is empty.
    """
    chunks, workers = layout.passes * layout.batch, np.arange(layout.workers)
    found = []
    for other in workers:
        rows = _beside(layout, other, before, after).reshape(-1)
        owner, chunk, place = layout.split(np.maximum(rows, 0))
        found.append((np.where(rows < 0, -1, owner), chunk * layout.chunk + place))
    owner, places = found[worker]
    given = [p[(o == worker) & (other != worker)] for other, (o, p) in enumerate(found)]
    received = np.where(workers == worker, 0, (owner[:, None] == workers).sum(0))
    sent = np.array([len(rows) for rows in given])
    if not sent.any() or not received.any():
        given[worker], sent[worker], received[worker] = np.zeros(1, np.int64), 1, 1
    # Rows come by worker, of each in the order in which they are needed.
    borders, start = np.where(owner == worker, places, -1), layout.own
    for other in workers:
        wanted = (owner == other) & (other != worker)
        borders[wanted] = start + np.arange(wanted.sum())
        start += received[other]
    taken = _with_own(layout, borders.reshape(chunks, -1), before)
    return Halo(np.concatenate(given), taken, tuple(sent.tolist()), tuple(received.tolist()))


def _starts(ends: Any) -> Any:
    return np.concatenate([[0], ends[:-1]]).astype(np.int64)


def _windows(ends: Any, size: int, stride: int) -> Any:
    """Number of each document's compression windows."""
    lengths = ends - _starts(ends)
    return np.where(lengths >= size, (lengths - size) // stride + 1, 0)


def _spread(firsts: Any, counts: Any, stride: int) -> Any:
    """firsts[i] + 0, stride, ... of counts[i] values, one after another."""
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(firsts, counts) + within * stride


@dataclass(frozen=True)
class Pass:
    """The queries of one pass, as the attention operators take them; int64 [documents] each."""

    queries: np.ndarray  # prefix sums of the queries that each document has here
    offsets: np.ndarray  # position of the first of them in its document; 0 where there is none
    dense_queries: np.ndarray  # [2 documents], see `Documents.passes`
    dense_keys: np.ndarray  # [2 documents]


@dataclass(frozen=True)
class Compressed:
    """The compression windows whose first token is a worker's."""

    list: np.ndarray  # prefix sums over (chunk and l - 1 rows after it) of all own chunks
    starts: np.ndarray  # rows of the whole at which the windows begin, as they come out
    positions: np.ndarray  # the same, counted from their document's beginning


class Documents:
    """The lists of one worker for documents that end at `ends`, prefix sums of their lengths."""

    def __init__(self, layout: "Layout", worker: int, ends: Any) -> None:
        self.layout, self.worker = layout, worker
        self.ends = np.asarray(ends, np.int64)
        self.starts = _starts(self.ends)

    def _of_chunk(self, chunk: Any) -> tuple[Any, ...]:
        """Ends and starts of the documents that chunk may meet: of a batch, its own one."""
        if self.layout.batch == 1:
            return self.ends, self.starts
        document = slice(chunk % self.layout.batch, chunk % self.layout.batch + 1)
        return self.ends[document], self.starts[document]

    @cached_property
    def positions(self) -> Any:
        """Position of every own row in its document, int32 [L]."""
        rows = self.layout.rows(self.worker)
        return (rows - self.starts[np.searchsorted(self.ends, rows, "right")]).astype(np.int32)

    @cached_property
    def passes(self) -> Any:
        """The `Pass`es.

        Dense attention aligns the last query with the last key of a segment, so that a document is
        two of them there: up to its last query here, and what comes after.
        """
        found, m = [], self.layout.chunk
        for begins in self.layout.begins(self.worker):
            queries = np.clip(self.ends[:, None] - begins, 0, m).sum(1)
            counts = np.diff(queries, prepend=0)
            last = len(begins) - 1
            first = begins[np.minimum(np.searchsorted(begins + m, self.starts, "right"), last)]
            offsets = np.where(counts > 0, np.maximum(first - self.starts, 0), 0)
            read = self.starts + np.where(counts > 0, offsets + counts, 0)
            keys = np.stack([read, self.ends], 1).reshape(-1)
            found.append(Pass(queries, offsets, np.repeat(queries, 2), keys))
        return found

    def window(self, size: int) -> tuple[Any, ...]:
        """Prefix sums of queries and keys for the sliding window.

        The keys are size - 1 rows before every chunk, then the chunk. Those of other documents go
        to a first segment, which has no queries.
        """
        m, before = self.layout.chunk, size - 1
        all_queries, all_keys = [], []
        for chunk, begin in enumerate(self.layout.begins(self.worker).reshape(-1)):
            ends, starts = self._of_chunk(chunk)
            queries = np.clip(ends - begin, 0, m)
            begun = starts[np.searchsorted(ends, begin, "right")]
            foreign = before - min(before, begin - begun)
            keys = np.where(queries == 0, foreign, before + queries)
            all_queries += [chunk * m + np.concatenate([[0], queries])]
            all_keys += [chunk * (before + m) + np.concatenate([[foreign], keys])]
        return np.concatenate(all_queries), np.concatenate(all_keys)

    def compressed_ends(self, size: int, stride: int) -> Any:
        """Prefix sums of the documents' compression windows, of the whole."""
        return np.cumsum(_windows(self.ends, size, stride))

    def compressed(self, size: int, stride: int) -> Any:
        """The `Compressed` of this worker.

        A document is two segments in the list: what is before its first window here, too short for
        one, and its windows. Rows after the last document are a segment that is too short, too.
        """
        m, reach = self.layout.chunk, self.layout.chunk + size - 1
        lists, begun, positions = [], [], []
        for chunk, begin in enumerate(self.layout.begins(self.worker).reshape(-1)):
            ends, starts = self._of_chunk(chunk)
            skipped = -(-np.maximum(begin - starts, 0) // stride)
            first = starts + skipped * stride
            last = np.minimum(begin + m - 1, ends - size)
            counts = np.where(last >= first, (last - first) // stride + 1, 0)
            there = np.clip(ends, begin, begin + reach)
            before = np.clip(np.minimum(first, ends), begin, begin + reach)
            after = np.where(counts > 0, first + (counts - 1) * stride + size, there)
            segments = np.stack([before, after], 1).reshape(-1)
            segments = np.concatenate([segments, [there[-1], begin + reach]]) - begin
            lists.append(chunk * reach + segments)
            begun.append(_spread(first, counts, stride))
            positions.append(_spread(first - starts, counts, stride))
        return Compressed(*map(np.concatenate, (lists, begun, positions)))

    def most_windows(self, size: int, stride: int) -> Any:
        """The largest number of windows of any worker, at least 1."""
        worker, _, _ = self.layout.split(self._window_starts(size, stride))
        return max(1, int(np.bincount(worker, minlength=1).max()))

    def _window_starts(self, size: int, stride: int) -> Any:
        return _spread(self.starts, _windows(self.ends, size, stride), stride)

    def compressed_order(self, size: int, stride: int, rows: Any) -> Any:
        """Where the compressed rows of the whole stand among all workers', `rows` of each."""
        places = self.layout.places(self._window_starts(size, stride))
        sorted_by = np.argsort(places)
        worker = places[sorted_by] // self.layout.own
        first = np.searchsorted(worker, np.arange(self.layout.workers))
        order = np.empty(len(places), np.int64)
        order[sorted_by] = worker * rows + np.arange(len(places)) - first[worker]
        return order


def row_limits(layout: "Layout", size: int, stride: int) -> tuple[Any, ...]:
    """(rows of a worker, rows of the whole) that are enough for any documents."""
    rows = layout.passes * layout.batch * ((layout.chunk - 1) // stride + 1)
    return rows, max(1, layout.batch * max(0, (layout.length - size) // stride + 1))
