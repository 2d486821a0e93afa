"""Modelled time of the Ascend kernels on the twin, beside the bound that counts alone set.

A case is executed at two sizes, or at more where the twin takes little time for them. Named sizes
beyond them are extrapolated: the part of a launch that grows with what tiling gives its busiest
core, and the part that does not; bounds grow with what it gives all of them. The tiling itself is
asked for both. Those rows are marked. `--executed` runs all of them; the largest take the twin up
to half an hour each.
"""

import csv
import json
import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path

from . import modelled_calls as calls
from . import tiling

CHIPS = {"910B1": (24, 48), "910B3": (20, 40), "910B4": (20, 40)}


@dataclass(frozen=True)
class ModelledCase:
    """One kernel; `call(tokens)` runs it, among others perhaps."""

    name: str
    operator: str
    tiling: str | None  # the function of tiling.cc that knows its work; None: it is the tokens
    call: Callable
    sizes: tuple  # beside the tokens, as tiling is asked of them
    executed: tuple
    asked: tuple
    shape: str
    rows: int | None = None  # of the batch, where that is said

    @property
    def kernel(self):
        """Name of the kernel's entry, after the operator's type."""
        from mindspore_nsa import _native

        return re.sub(r"\B([A-Z])", r"_\1", _native.ascend_type(self.operator)).lower()

    def work(self, tokens, chip):
        """Work of the busiest core and of all cores, in any unit."""
        if self.tiling is None:
            return tokens, tokens
        # Attention has its blocks on cube cores, compression on vector cores.
        cores = CHIPS[chip][0 if "Attention" in self.operator else 1]
        return tiling.work(self.tiling, tokens, *self.sizes, cores=cores)


@dataclass
class Row:
    case: str
    rows: int | None
    tokens: int
    microseconds: float
    bound_microseconds: float
    bound_by: str
    ratio: float
    extrapolated: bool
    shape: str


# Tokens in all caches of a batch up to which a step is executed: 64 rows of 65536 tokens are 21 GB
# in the memory of MindSpore and of the twin, which has a copy.
MOST_CACHED = 2**20


def _over_caches(quick, rows, new):
    """The attention of the new tokens of each row; as `cases` has them."""
    sizes = (1024, 4096) if quick else (4096, 16384, 65536)
    kept = tuple(n for n in sizes if rows * n <= MOST_CACHED or n in sizes[:2])
    return (
        (
            *("selected_infer", "NsaSelectedAttentionInfer", None),
            *(calls.selected_infer(rows), (sizes, sizes), rows),
        ),
        (
            *("compress_infer", "NsaCompressAttentionInfer", None),
            *(calls.compress_infer(rows, new), (sizes, sizes), rows),
        ),
        ("decode", "NsaDecode", None, calls.decode(rows, new), (sizes, sizes), rows),
        ("cache_step", "NsaCacheStep", None, calls.cache_step(rows), (kept, sizes), rows),
    )


def cases(quick=False, rows=(8,), new=1):
    """Cases whose operator has a kernel. Cache readers come for each number of `rows`,
    and for `new` tokens of each where these share what they read."""
    from mindspore_nsa import _native

    # Below, the start of a launch hides what a core is given.
    sizes = ((6144, 8192), (16384,)) if quick else ((8192, 16384), (8192, 16384, 65536))
    # Executing attention takes the twin longer by the square.
    flash_sizes = ((256, 512), (1024,)) if quick else ((512, 1024), (1024, 4096, 8192))
    attention_sizes = ((512, 1024), (2048,)) if quick else ((1024, 2048), (2048, 4096, 8192))
    selected_sizes = ((256, 512), (1024,)) if quick else ((512, 1024), (1024, 4096, 8192))
    # Name, operator, its name there, call with its sizes and shape, tokens that are executed and
    # asked for. The tiling of a call is asked by that name, but for the one named here.
    tilings = {"compress_attention_backward": "nsa_compress_attention_grad"}
    found = (
        ("compress_forward", "NsaCompress", "nsa_compress", calls.compress(False), sizes),
        ("compress_backward", "NsaCompressGrad", "nsa_compress_grad", calls.compress(True), sizes),
        (
            *("compress_with_cache", "NsaCompressWithCache", "nsa_compress_with_cache"),
            *(calls.compress_with_cache(), ((8, 64), (8, 64))),
        ),
        (
            *("compress_attention_forward", "NsaCompressAttention", "nsa_compress_attention"),
            *(calls.compress_attention(False), attention_sizes),
        ),
        (
            *("compress_attention_backward", "FlashAttentionScoreGrad"),
            *("flash_attention_score_grad", calls.compress_attention(True), attention_sizes),
        ),
        (
            *("selected_forward", "NsaSelectedAttention", "nsa_selected_attention"),
            *(calls.selected(False), selected_sizes),
        ),
        (
            *("selected_backward", "NsaSelectedAttentionGrad", "nsa_selected_attention_grad"),
            *(calls.selected(True), selected_sizes),
        ),
        (
            *("flash_forward", "FlashAttentionScore", "flash_attention_score"),
            *(calls.flash(False), flash_sizes),
        ),
        (
            *("flash_backward", "FlashAttentionScoreGrad", "flash_attention_score_grad"),
            *(calls.flash(True), flash_sizes),
        ),
        *(case for count in rows for case in _over_caches(quick, count, new)),
    )
    return [
        ModelledCase(
            *(name, operator, tilings.get(name, kernel)),
            *(call, fixed, executed, asked, shape, *batch),
        )
        for name, operator, kernel, (call, fixed, shape), (executed, asked), *batch in found
        if operator in _native.ascend_operators()
    ]


def _execute(case, tokens, chip, trace=None):
    import mindspore_nsa
    from mindspore_nsa import twin

    with mindspore_nsa.target("ascend_twin"), twin.clock(chip, trace=trace) as timed:
        case.call(tokens)
    launches = [launch for launch in timed() if launch["kernel"] == case.kernel]
    assert len(launches) == 1, (case.name, [launch["kernel"] for launch in timed()])
    return launches[0]


def _beyond(work, a, b):
    """Where a line through what two executed amounts of work gave is at the third."""
    return b + (work[2] - work[1]) / (work[1] - work[0]) * (b - a)


def rows_of(case, chip, trace=None, seen=lambda tokens, launch: None):
    """A `Row` for each size that is asked for; `seen` gets what the clock says of an execution."""
    sizes = sorted({*case.executed})
    launches = {n: _execute(case, n, chip, trace if n == sizes[-1] else None) for n in sizes}
    for executed in launches.items():
        seen(*executed)
    first, last = sizes[0], sizes[-1]
    beyond_them = [n for n in case.asked if n not in launches]
    work = {n: case.work(n, chip) for n in (*sizes, *beyond_them)} if beyond_them else {}
    found = []
    for tokens in case.asked:
        if tokens in launches:
            time, bounds = launches[tokens]["microseconds"], launches[tokens]["bound"]
        else:
            ends = [launches[n] for n in (first, last)]
            most, total = zip(*(work[n] for n in (first, last, tokens)), strict=True)
            time = _beyond(most, *(end["microseconds"] for end in ends))
            bounds = {
                name: _beyond(total, *(end["bound"][name] for end in ends))
                for name in ends[0]["bound"]
            }
        name, bound = max(bounds.items(), key=lambda item: item[1])
        found.append(
            Row(
                *(case.name, case.rows, tokens, time, bound, name, time / bound),
                tokens not in launches,
                case.shape,
            )
        )
    return found


def _line(row):
    mark = "extrapolated" if row.extrapolated else ""
    return (
        f"{row.case:<26} {row.tokens:>7} {row.microseconds:>11.1f} {row.bound_microseconds:>11.1f} "
        f"{row.bound_by:<7} {row.ratio:>6.2f}  {mark:<12}  {row.shape}"
    )


def select(names, quick=False, rows=(8,), new=1):
    """The cases whose names begin with one of the texts; all of them for none."""
    found = cases(quick, rows, new)
    for name in names or ():
        if not any(case.name.startswith(name) for case in found):
            known = ", ".join(case.name for case in found)
            raise ValueError(f"no modelled case begins with {name!r}; there are {known}")
    return [case for case in found if not names or case.name.startswith(tuple(names))]


def run(found, chip="910B1", csv_path=None, png=None, executed=False, clock=False, out=sys.stdout):
    """Print the table, of executions alone if so wished, after the `clock`'s own of them;
    returns its rows."""
    if executed:
        found = [replace(case, executed=case.asked) for case in found]
    if png:
        from . import plot

        plot.require()
    print(f"modelled time on Ascend{chip}, launch apart; nothing here was measured on it", file=out)
    heads = ("case", "tokens", "modelled us", "bound us", "bound", "ratio")
    print("{:<26} {:>7} {:>11} {:>11} {:<7} {:>6}".format(*heads), file=out)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder, "trace.json")
        for case in found:
            # The picture is of the first case.
            wanted = trace if png and not rows else None

            def seen(tokens, launch, case=case):
                if clock:
                    print(f"{case.name}, {tokens} tokens, {case.shape}", file=out)
                    print(launch["table"], file=out, flush=True)

            for row in rows_of(case, chip, wanted, seen):
                rows.append(row)
                print(_line(row), file=out, flush=True)
        if png:
            plot.write_timeline(png, json.loads(trace.read_text()))
    if csv_path:
        with open(csv_path, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([field.name for field in fields(Row)] + ["chip"])
            writer.writerows([*astuple(row), chip] for row in rows)
    return rows
