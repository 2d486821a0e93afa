"""The rows of the tables of figures, from the files in benchmarks/results.

A table is a file and a function, which makes lists of cells of the file's rows. tables.py writes
them into the pages.
"""

import csv
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

RESULTS = "benchmarks/results"
# Folder of the machine whose figures `make figures` writes.
HERE = "intel_xeon_avx512"


def digits(text, most=3, scale=0):
    """A number times 10**scale with no more significant digits than it has, and than `most`."""
    number = Decimal(text).scaleb(scale)
    if len(number.as_tuple().digits) > most:
        return f"{float(number):#.{most}g}".rstrip(".")
    return format(number, "f")


def ratio(text):
    """A ratio with three digits; what is no number, such as why there is none, is left out."""
    try:
        return digits(text)
    except ArithmeticError:
        return ""


def rounded(text, places=2, scale=0):
    """A number times 10**scale with so many decimal places."""
    return f"{Decimal(text).scaleb(scale):.{places}f}"


def seconds(value):
    """A measured time with three digits."""
    return f"{value:#.3g}".rstrip(".") + " s"


def read(path):
    """The rows of a file as dicts of texts."""
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def verbatim(rows):
    """The columns as they stand."""
    return [list(row.values()) for row in rows]


def each(*cells):
    """A line for every row of the file; a cell is the name of a column or a function of the row."""

    def lines(rows):
        return [[cell(row) if callable(cell) else row[cell] for cell in cells] for row in rows]

    return lines


def by_length(rows):
    """{tokens: {attention: row}}, in order."""
    found = {}
    for row in rows:
        found.setdefault(int(row["tokens"]), {})[row["attention"]] = row
    return dict(sorted(found.items()))


def ours_and_dense(rows, direction):
    """Seconds of NSA and of the fastest dense attention, from the rows of one length."""
    times = {name: float(row[f"{direction}_seconds"]) for name, row in rows.items()}
    return times.pop("nsa"), min(times.values())


def lengths(*directions, shown=None):
    """NSA beside dense attention, for the lengths that are shown and the longest."""

    def lines(rows):
        found, lines = by_length(rows), []
        for tokens in (n for n in found if shown is None or n in shown or n == max(found)):
            cells = [f"{tokens:,}"]
            for direction in directions:
                ours, dense = ours_and_dense(found[tokens], direction)
                cells += [seconds(ours), seconds(dense), f"{dense / ours:.1f}"]
            others = found[tokens].get("mindspore")
            lines.append([*cells, seconds(float(others["both_seconds"])) if others else ""])
        return lines

    return lines


def share(row):
    """A share and what it is of, in one word that every language takes."""
    return f"{float(row['share']):.2f} {row['share_of'].split()[0]}" if row["share"] else ""


def cases(rows):
    """A line for every case; the share of the peak stands where the run measured it."""
    found = []
    for row in rows:
        cells = [f"`{row['case']}`", row["shape"], digits(row["seconds"], scale=3)]
        cells += [ratio(row.get(f"speedup_over_{peer}") or "") for peer in ("torch", "dense")]
        if "peak_share" in row:
            cells.append(rounded(row["peak_share"]) if row["peak_share"] else "")
        found.append([*cells, share(row)])
    return found


def sizes(rows):
    """A line for the sizes of a model, a column for each length."""
    found = {}
    for row in (row for row in rows if row["table"] == "sizes"):
        key = f"{row['blocks']} of {row['block_size']}", row["window"]
        found.setdefault(key, []).append(f"{row['keys']} keys, {rounded(row['ratio'])}")
    return [[*key, *cells] for key, cells in found.items()]


def sharing(rows):
    """A column for every number of query heads that share a key head."""
    rows = [row for row in rows if row["table"] == "sharing"]
    return [["NSA over dense", *(rounded(row["ratio"]) for row in rows)]]


def direction(row):
    """Name of the direction on the pages."""
    return {"both": "with gradients", "backward": "gradient"}.get(
        row["direction"], row["direction"]
    )


def bound(row):
    """The share of a call that reads as many bytes and does nothing else."""
    text = row.get("bound")
    return text or f"{float(row['share']) / float(row['speedup_over_reader']):.2f}"


def decoding(rows):
    """A line for every case of one new token through all three branches."""
    found = []
    for row in (row for row in rows if row["operator"] == "NsaDecode"):
        tokens, batch = re.match(r"S=(\d+) B=(\d+) ", row["shape"]).groups()
        label = f"{row['dtype']}, {tokens}" + (f", batch {batch}" if batch != "1" else "")
        found.append([label, rounded(row["bytes"], 1, -6)])
        found[-1] += [rounded(row[name], 0, 6) for name in ("seconds", "kernel_seconds")]
        found[-1] += [rounded(row["share"]), bound(row)]
        found[-1] += [f"{rounded(row[f'speedup_over_{n}'])}x" for n in ("dense", "torch")]
    return found


def unit(column, name):
    """The column with its unit; nothing where it is empty."""
    return lambda row: row[column] and f"{row[column]} {name}"


def flops(column):
    """A rate, or the words that say why there is none."""
    return lambda row: row[column] + (" GFLOP/s" if row[column][0].isdigit() else "")


US = "microseconds"
TIME, BOUND = unit(US, "us"), unit("bound_microseconds", "us")


def gradient_tokens(row):
    """How rows of an operator and of its gradient are told apart."""
    return ("gradient, " if row["operator"].endswith("Grad") else "") + row["tokens"]


def flash_pipes(rows):
    """Every pipe's busy time, and how much of it the documented rates ask for."""
    pipes = [name for name in rows[0] if f"{name}_documented_percent" in rows[0]]
    found = []
    for row in rows:
        label = gradient_tokens(row)
        cells = (f"{row[name]} ({row[f'{name}_documented_percent']} %)" for name in pipes)
        label += "" if label.startswith("gradient") else " tokens"
        found.append([label, row[US], row["bound_microseconds"], *cells])
    return found


def compress_bound(prefix):
    """A bound, marked where the vector pipe sets it and not HBM."""

    def cell(row):
        mark = ", V" if row[f"{prefix}bound_by"] == "vector" else ""
        return f"{row[f'{prefix}bound_microseconds']} us{mark}"

    return cell


@dataclass(frozen=True)
class Table:
    """A file of the repository, and the function that makes lists of cells of its rows."""

    file: str
    lines: Callable = verbatim


def tenths(column, end=""):
    """The number with one digit behind the point."""
    return lambda row: f"{float(row[column]):.1f}{end}"


# Operators that read a cache; * where a row was extrapolated.
CACHED = each(
    *("rows", lambda row: row["tokens"] + "*" * (row.get("extrapolated") == "True")),
    *(tenths(US, " us"), tenths("bound_microseconds", " us"), tenths("ratio")),
)
_TABLES = {
    "lengths": Table(f"{HERE}/lengths.csv", lengths("both", shown=(1024, 2048, 4096, 16384))),
    "all lengths": Table(f"{HERE}/lengths.csv", lengths("forward", "both")),
    "cases": Table(f"{HERE}/cases.csv", cases),
    "all lengths, AMX": Table("intel_xeon_amx/lengths.csv", lengths("forward", "both")),
    "cases, AMX": Table("intel_xeon_amx/cases.csv", cases),
    "sizes": Table("amd_zen5/sizes.csv", sizes),
    "sharing of key heads": Table("amd_zen5/sizes.csv", sharing),
    "layer": Table(
        "intel_xeon_amx/layer.csv",
        each(
            lambda row: f"{row['tokens']}, {row['dtype']}, {direction(row)}",
            *(
                lambda row, name=name: f"{digits(row[name])} s"
                for name in ("seconds", "attention_seconds", "product_seconds")
            ),
            lambda row: rounded(row["ratio"]),
        ),
    ),
    "decoding, Zen 5": Table("amd_zen5/decode.csv", decoding),
    "decoding, Xeon": Table("intel_xeon_amx/decode.csv", decoding),
    "indexers": Table(
        "amd_epyc_avx512_bf16/indexers.csv",
        each("call", flops("float32_gflops"), "share", flops("bfloat16_gflops")),
    ),
    "block_indexer": Table("amd_epyc_avx512_bf16/block_indexer.csv"),
    **{
        f"modelled {name}": Table(f"ascend_910b1_modelled/{name}.csv", CACHED)
        for name in ("selected_infer", "compress_attention_infer", "decode", "cache_step")
    },
    "modelled new_tokens": Table(
        "ascend_910b1_modelled/new_tokens.csv",
        each(
            *("rows", "new_tokens", "tokens", tenths("alone_microseconds", " us")),
            *(tenths(US, " us"), tenths("bound_microseconds", " us"), tenths("ratio")),
        ),
    ),
    "modelled flash": Table(
        "ascend_910b1_modelled/flash.csv",
        each(
            lambda row: row["tokens"] + "*" * (row["extrapolated"] == "True"),
            *(TIME, "bound_microseconds"),
            *(unit("gradient_microseconds", "us"), "gradient_bound_microseconds"),
        ),
    ),
    "modelled compress_attention": Table(
        "ascend_910b1_modelled/compress_attention.csv",
        each(
            *("tokens", TIME, "bound_microseconds"),
            *("aiv_vector", "aiv_loads", "aic_loads", "cube", "l0c_to_gm"),
        ),
    ),
    "modelled flash_pipes": Table("ascend_910b1_modelled/flash_pipes.csv", flash_pipes),
    "modelled selected_pipes": Table(
        "ascend_910b1_modelled/selected_pipes.csv",
        each(
            *(gradient_tokens, TIME, "bound_microseconds"),
            *("aic_mte2", "aic_mte1", "aic_cube", "aic_fix", "aiv_vector"),
        ),
    ),
    "modelled compress_with_cache": Table(
        "ascend_910b1_modelled/compress_with_cache.csv", each("rows", TIME, BOUND)
    ),
    "modelled compress": Table(
        "ascend_910b1_modelled/compress.csv",
        each(
            lambda row: f"{row['windows_over_a_token']} (l = {row['window']}, s = {row['stride']})",
            *(unit("before_microseconds", "us"), TIME, compress_bound("")),
            *(unit("gradient_microseconds", "us"), compress_bound("gradient_")),
        ),
    ),
    "memory of workers": Table(
        "unnamed_cpu/parallel_memory.csv",
        each(
            *("workers", unit("joining_mb", "MB"), "joining_ratio"),
            *(unit("step_mb", "MB"), "step_ratio"),
        ),
    ),
    "losses of Qwen3": Table(
        "unnamed_cpu/mindformers_qwen3.csv",
        lambda rows: [
            [shown, *(row[name] for row in rows)]
            for name, shown in (("dense", "dense"), ("nsa", "NSA"))
        ],
    ),
    "losses on the twin": Table("unnamed_cpu/demo_on_twin.csv"),
    "generation": Table("amd_epyc_avx512_bf16/generation.csv"),
}
TABLES = {name: Table(f"{RESULTS}/{table.file}", table.lines) for name, table in _TABLES.items()}
