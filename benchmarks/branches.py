"""Cases of the three branches of NSA together, against the fastest dense attention."""

import gc
import statistics
import time
from dataclasses import dataclass
from functools import partial

from . import check, peak, peers, timing, workloads
from .counts import causal_pairs, compressed_pairs, selected_pairs, window_pairs
from .program import Program
from .result import Result

HEADS, KV_HEADS, DIM, WINDOW = 16, 1, 128, 512
# Tokens, and those of a quick run.
LENGTHS = ((8192, 1024), (32768, 2048), (65536, 4096))
# Speedup that is asked for where the ratio of visible pairs does not say enough.
SHORT = {"forward": 2.1, "both": 1.5}
# Share of the ratio of visible pairs, from this length on.
SHARE, LONG = 0.85, 32768
# Seconds that one function may take in all; a first call that takes half of it counts itself,
# others are warm-ups. What is measured has a warm-up and so many calls in any case: the memory that
# it asks for comes to the process in its first call, and what it is compared with finds it there.
BUDGET = 20.0
LEAST_CALLS = 3

window = partial(workloads.flash, heads=HEADS, kv_heads=KV_HEADS, dim=DIM, window=WINDOW)
dense = partial(workloads.flash, heads=HEADS, kv_heads=KV_HEADS, dim=DIM)
compression = partial(workloads.compress, heads=KV_HEADS, dim=DIM)
BRANCHES = (workloads.compress_attention, workloads.selected, window)


def _programs(workload, direction):
    """The forward call, and the gradient's where that is asked for."""
    forward = Program(workload.forward)
    if direction == "forward":
        return [forward]
    return [forward, Program(workload.gradient(forward.arrays()))]


def nsa_programs(tokens, dtype, direction, parts=None):
    """Calls of the compression, of keys and of values, then of the three branches."""
    parts = parts or [build(tokens, dtype) for build in BRANCHES]
    found = 2 * _programs(compression(tokens, dtype), direction)
    for part in parts:
        found += _programs(part, direction)
    return found


def interleaved(functions, rounds, budget=BUDGET):
    """name -> times; in turn, so that a machine that slows down slows all of them.

    The first function is the one that is measured, the others are what it is compared with.
    """
    times = {name: [] for name in functions}
    measured = next(iter(functions))
    for name, function in functions.items():
        begin = time.perf_counter()
        function()
        first = time.perf_counter() - begin
        if first > budget / 2 and name != measured:
            times[name].append(first)
    for _ in range(rounds):
        for name, function in functions.items():
            enough = len(times[name]) >= (LEAST_CALLS if name == measured else 1)
            if enough and sum(times[name]) + times[name][0] > budget:
                continue
            time.sleep(timing.PAUSE)
            begin = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - begin)
    return times


@dataclass(frozen=True)
class BranchesCase:
    """Compression of keys and values, and attention of the three branches."""

    name: str
    dtype: str
    direction: str  # forward; both: with gradients
    tokens: int
    quick_tokens: int

    kind = "branches"
    operator = "NativeSparseAttention"

    @property
    def speedup(self):
        return SHORT[self.direction] if self.tokens < LONG else None

    @property
    def share(self):
        return SHARE if self.tokens >= LONG else None

    def problem(self):
        """Why one of the operators cannot be measured, or None."""
        builds = (compression, *BRANCHES, dense)
        return check.first_problem(builds, self.dtype, self.direction)

    def run(self, settings):
        """A `Result`."""
        tokens = self.quick_tokens if settings.quick else self.tokens
        parts = [build(tokens, self.dtype) for build in BRANCHES]
        nsa = nsa_programs(tokens, self.dtype, self.direction, parts)
        whole = dense(tokens, self.dtype)
        ours = _programs(whole, self.direction)
        functions = {"nsa": lambda: [f() for f in nsa], "dense": lambda: [f() for f in ours]}
        peer = {}
        try:
            direction = "forward" if self.direction == "forward" else "backward"
            inputs = (workloads.repeated(x, HEADS) for x in whole.dense())
            functions["torch"] = peers.torch_dense(*inputs, DIM**-0.5, direction)
        except peers.DoesNotFit as reason:
            peer["torch"] = str(reason)
        bound = peak.of(self.dtype)
        if bound:
            functions["peak"] = bound.loop
        gc.collect()
        times = interleaved(functions, settings.rounds)
        least = {name: statistics.median(values) for name, values in times.items()}
        least.pop("peak", None)
        seconds = least.pop("nsa")
        peer |= {name: value / seconds for name, value in least.items()}
        speedup = min(least.values()) / seconds
        pairs = causal_pairs(tokens) / self._pairs(tokens, parts[1])
        directions = ("forward",) if self.direction == "forward" else ("forward", "backward")
        work = sum(part.work[d] for part in parts for d in directions)
        return Result.of(
            self,
            tokens=tokens,
            shape=f"S={tokens} N={HEADS}/{KV_HEADS} D={DIM} window={WINDOW}",
            seconds=seconds,
            share=speedup / pairs,
            share_of="pairs",
            share_of_rate=pairs,
            # The target holds for the sizes of a whole run.
            share_target=None if settings.quick else self.share,
            speedup=speedup,
            speedup_target=None if settings.quick else self.speedup,
            **peak.shares(bound, work, seconds, times),
            peers=peer,
            spread=max(map(timing.spread, times.values())),
        )

    def _pairs(self, tokens, selected):
        """Visible pairs of a query head."""
        indices = selected.forward.named()["topk_indices"]
        return (
            compressed_pairs(tokens, workloads.L, workloads.S)
            + selected_pairs(indices, workloads.SELECT, tokens)
            + window_pairs(tokens, WINDOW)
        )


def branches_cases():
    """Every length, dtype and direction."""
    return [
        BranchesCase(f"nsa_{dtype}_{direction}_{tokens}", dtype, direction, tokens, quick)
        for tokens, quick in LENGTHS
        for dtype in ("float32", "bfloat16")
        for direction in ("forward", "both")
    ]
