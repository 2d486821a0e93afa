"""Tables for people and for programs."""

import csv
import math
from dataclasses import fields

from .result import Result

PEERS = ("mindspore", "torch", "dense", "lucidrains")
_NONE = "-"


def machine_line(description):
    """One line of everything that the figures depend on."""
    return " | ".join(f"{name} {value}" for name, value in description.items())


def _number(value, form):
    return _NONE if value is None else format(value, form)


def _of_target(value, target, form=".2f"):
    """A figure, and what it should be."""
    text = _number(value, form)
    return text if target is None else f"{text} ({target:.2f})"


def _peer(value):
    return value if isinstance(value, str) else _number(value, ".2f") + "x" * (value is not None)


def _bound(result):
    """The share of a call that reads as many bytes and does nothing else."""
    reader = result.peers.get("reader")
    return None if reader is None else result.share / reader


def _peak(result):
    return _NONE if result.peak is None else f"{result.peak} {result.peak_rate:.0f}"


def _baseline(result):
    if result.baseline_ratio is None:
        return _NONE
    ratio = _of_target(result.baseline_ratio, result.baseline_limit)
    return f"{ratio} {result.baseline}"


# kind -> (heading, width, text of a result); the first column is left-aligned.
_COLUMNS = {
    "speed": (
        ("case", 36, lambda r: r.case),
        ("ms", 9, lambda r: f"{r.seconds * 1e3:.1f}"),
        ("kernel ms", 9, lambda r: f"{r.kernel_seconds * 1e3:.1f}"),
        ("rate", 13, lambda r: f"{r.rate:.1f} {r.unit}"),
        ("share", 11, lambda r: _of_target(r.share, r.share_target)),
        ("of", 26, lambda r: f"{r.share_of} {r.share_of_rate:.1f}"),
        ("of peak", 7, lambda r: _number(r.peak_share, ".2f")),
        ("peak", 18, _peak),
        ("time of ours", 20, _baseline),
        *((f"vs {p}", 12, lambda r, p=p: _peer(r.peers.get(p))) for p in PEERS[:2]),
        ("MB", 7, lambda r: f"{r.bytes / 1e6:.0f}"),
        ("shape", 46, lambda r: r.shape),
    ),
    "branches": (
        ("case", 36, lambda r: r.case),
        ("ms", 9, lambda r: f"{r.seconds * 1e3:.1f}"),
        ("speedup", 12, lambda r: _of_target(r.speedup, r.speedup_target)),
        ("pairs", 7, lambda r: f"{r.share_of_rate:.2f}x"),
        ("share", 11, lambda r: _of_target(r.share, r.share_target)),
        ("of peak", 7, lambda r: _number(r.peak_share, ".2f")),
        ("peak", 18, _peak),
        ("vs dense", 9, lambda r: _peer(r.peers.get("dense"))),
        ("vs torch", 9, lambda r: _peer(r.peers.get("torch"))),
        ("shape", 34, lambda r: r.shape),
    ),
    "latents": (
        ("case", 36, lambda r: r.case),
        ("ms", 9, lambda r: f"{r.seconds * 1e3:.1f}"),
        ("vs dense", 12, lambda r: _of_target(r.speedup, r.speedup_target)),
        ("products", 8, lambda r: f"{r.share_of_rate:.2f}x"),
        ("share", 11, lambda r: _of_target(r.share, r.share_target)),
        ("of peak", 7, lambda r: _number(r.peak_share, ".2f")),
        ("peak", 18, _peak),
        ("shape", 56, lambda r: r.shape),
    ),
    "layer": (
        ("case", 36, lambda r: r.case),
        ("ms", 9, lambda r: f"{r.seconds * 1e3:.2f}"),
        ("attention ms", 12, lambda r: f"{r.attention_seconds * 1e3:.2f}"),
        ("products ms", 11, lambda r: f"{r.product_seconds * 1e3:.2f}"),
        ("ratio", 12, lambda r: _of_target(r.ratio, r.ratio_limit)),
        ("shape", 34, lambda r: r.shape),
    ),
    "layer memory": (
        ("case", 36, lambda r: r.case),
        ("s", 7, lambda r: f"{r.seconds:.1f}"),
        ("MB", 8, lambda r: f"{r.bytes / 1e6:.0f}"),
        ("scratch MB", 10, lambda r: f"{r.scratch_bytes / 1e6:.1f}"),
        ("VmHWM MB", 9, lambda r: f"{r.resident_bytes / 1e6:.0f}"),
        ("ratio", 12, lambda r: _of_target(r.resident_ratio, r.ratio_limit)),
        ("shape", 34, lambda r: r.shape),
    ),
    "other": (
        ("case", 36, lambda r: r.case),
        ("ms", 9, lambda r: f"{r.seconds * 1e3:.1f}"),
        ("vs lucidrains", 14, lambda r: _peer(r.peers.get("lucidrains"))),
        ("target", 8, lambda r: _number(r.speedup_target, ".0f")),
        ("shape", 34, lambda r: r.shape),
    ),
    "decode": (
        ("case", 36, lambda r: r.case),
        ("us", 9, lambda r: f"{r.seconds * 1e6:.1f}"),
        ("kernel us", 9, lambda r: f"{r.kernel_seconds * 1e6:.1f}"),
        ("rate", 13, lambda r: f"{r.rate:.1f} {r.unit}"),
        ("share", 11, lambda r: _of_target(r.share, r.share_target)),
        ("bound", 6, lambda r: _number(_bound(r), ".2f")),
        ("of", 12, lambda r: f"{r.share_of} {r.share_of_rate:.1f}"),
        ("vs dense", 9, lambda r: _peer(r.peers.get("dense"))),
        ("vs blocks", 9, lambda r: _peer(r.peers.get("blocks"))),
        ("vs torch", 9, lambda r: _peer(r.peers.get("torch"))),
        ("MB", 7, lambda r: f"{r.bytes / 1e6:.1f}"),
        ("shape", 34, lambda r: r.shape),
    ),
    "memory": (
        ("case", 44, lambda r: r.case),
        ("s", 7, lambda r: f"{r.seconds:.1f}"),
        ("MB", 8, lambda r: f"{r.bytes / 1e6:.0f}"),
        ("scratch MB", 10, lambda r: f"{r.scratch_bytes / 1e6:.1f}"),
        ("VmHWM MB", 9, lambda r: f"{r.resident_bytes / 1e6:.0f}"),
        ("ratio", 12, lambda r: _of_target(r.ratio, r.ratio_limit)),
        ("by VmHWM", 12, lambda r: _of_target(r.resident_ratio, r.ratio_limit)),
        ("shape", 24, lambda r: r.shape),
    ),
    "training": (
        ("case", 44, lambda r: r.case),
        ("s", 8, lambda r: f"{r.seconds:.2f}"),
        ("tokens/s", 9, lambda r: f"{r.rate:.0f}"),
        ("vs dense", 9, lambda r: _peer(r.peers["dense"])),
        ("shape", 34, lambda r: r.shape),
    ),
    "overhead": (
        ("case", 44, lambda r: r.case),
        ("us", 8, lambda r: f"{r.seconds * 1e6:.1f}"),
        ("kernel us", 9, lambda r: f"{r.kernel_seconds * 1e6:.1f}"),
        ("empty us", 8, lambda r: f"{r.empty_seconds * 1e6:.1f}"),
        ("ratio", 12, lambda r: _of_target(r.ratio, r.ratio_limit)),
        ("shape", 24, lambda r: r.shape),
    ),
}
_NOTES = {
    "branches": (
        "ms: the compression and the attention of the three branches through MindSpore, both: with "
        "their gradients. vs: time of dense causal attention over it, ours and torch's; speedup: "
        "over the faster of them (target). pairs: visible pairs of dense attention over those of "
        "the branches; share: of this ratio that the speedup reaches (target). of peak: share of "
        "the multiply-adds on registers that the instruction set named does (GFLOP/s)."
    ),
    "latents": (
        "ms: indexer and attention over the tokens that it picks, through MindSpore; both: with "
        "the loss of the indexer and all gradients. vs dense: time of dense attention over it "
        "(target). products: the same ratio of their products; share: of it that is reached "
        "(target). of peak: share of the multiply-adds on registers that the instruction set named "
        "does (GFLOP/s)."
    ),
    "layer": (
        "ms: a step of the layer in a graph, both: with its gradients. Alone, each through "
        "MindSpore: its attention with compression, and the matrix products of its linear maps, by "
        "the operators that it has for its dtype. ratio: the step over the sum of the two (limit). "
        "decode_layer: of one token with a cache; its attention is nsa_decode."
    ),
    "layer memory": (
        "s: a step of the layer with its gradients. MB: input, output and parameters with their "
        "gradients, and what the gradients read of the forward, in the dtype named. VmHWM MB: what "
        "the step takes as the system sees it, in a fresh process. ratio: of it to MB (limit)."
    ),
    "other": (
        "ms: the layer as above. vs: time of the layer of lucidrains' "
        "native-sparse-attention-pytorch, of the same sizes, over it."
    ),
    "decode": (
        "us: median of interleaved calls of one new token through MindSpore (graph), caches not in "
        "the processor's; kernel us: inside the native function. rate: bytes that must be read "
        "over time; share: of the machine's bandwidth of reading (target); bound: what a call of "
        "these inputs reaches that reads as many bytes and does nothing else.\nvs: time of dense "
        "attention of one token over ours: dense, the cache step of DenseAttention; blocks, "
        "nsa_selected_attention_infer over all blocks; torch, scaled_dot_product_attention. MB: "
        "what must be read."
    ),
    "speed": (
        "ms: median of interleaved calls through MindSpore (graph); kernel ms: inside the native "
        "function. share: of the GEMM rate named or of the bandwidth of copying the input, median "
        "of ratios within a round (target). of peak: share of the multiply-adds on registers that "
        "the instruction set named does (GFLOP/s). time of ours: as a multiple of the dtype named "
        "(limit)."
        "\nvs: time of dense causal attention over ours, same S; a gradient together with its "
        "forward on both sides; GB: memory that the peer would need. MB: inputs, outputs, scratch."
    ),
    "memory": (
        "MB: inputs, outputs, gradients and scratch, forward and backward. ratio: over inputs, "
        "outputs and gradients (limit); by VmHWM: as the system sees it, in a fresh process."
    ),
    "training": (
        "s: a training step of a language model with NSA on one sequence. vs dense: time of the "
        "step with dense attention over that with NSA."
    ),
    "overhead": (
        "Median of warm calls on one token with launch_blocking, PyNative, and per call in a graph "
        "of 100. kernel us: inside the native function. empty: a "
        "Custom of as many inputs and outputs that does nothing, from a library as many folders "
        "down as ours."
    ),
}


def _row(texts, columns):
    cells = [f"{texts[0]:<{columns[0][1]}}"]
    cells += [f"{text:>{width}}" for text, (_, width, _) in zip(texts[1:], columns[1:])]
    return "  ".join(cells).rstrip()


def header(kind):
    """Headings of the columns, below a note that explains them."""
    columns = _COLUMNS[kind]
    return f"{_NOTES[kind]}\n{_row([name for name, _, _ in columns], columns)}"


def line(result):
    """One row of the table of its kind."""
    columns = _COLUMNS[result.kind]
    return _row([text(result) for _, _, text in columns], columns)


def crossover(results):
    """From which context on a training step is faster with NSA than with dense attention, or None.

    Between two measured contexts the ratio of the times is taken for a power of the context.
    """
    ratios = sorted((r.tokens, r.peers["dense"]) for r in results if r.kind == "training")
    if not ratios:
        return None
    if all(ratio >= 1 for _, ratio in ratios):
        return f"crossover: NSA is faster from the shortest context measured on ({ratios[0][0]})"
    if ratios[-1][1] < 1:
        return f"crossover: dense is faster up to the longest context measured ({ratios[-1][0]})"
    last = max(i for i, (_, ratio) in enumerate(ratios) if ratio < 1)
    (below, slower), (above, faster) = ratios[last : last + 2]
    place = below * (above / below) ** (math.log(1 / slower) / math.log(faster / slower))
    return (
        f"crossover: NSA is faster than dense from between {below} and {above} tokens of context, "
        f"interpolated {place:.0f}"
    )


def _doubt(result):
    if not result.unsteady():
        return ""
    return f" (in doubt: its rounds disagree by {result.spread:.0%}; is nothing else running?)"


def summary(results, refused):
    """Summary: cases measured, targets missed, cases refused."""
    missed = [f"{r.case}: {text}{_doubt(r)}" for r in results for text in r.missed()]
    lines = [f"{len(results)} cases measured, {len(missed)} targets missed"]
    lines += [f"  {text}" for text in missed]
    lines += [f"refused: {name}" for name in refused]
    lines += filter(None, [crossover(results)])
    return "\n".join(lines)


def write_csv(path, results, description):
    """One row per case, the machine in the last columns."""
    names = [f.name for f in fields(Result) if f.name != "peers"]
    # A case may have peers of its own.
    peers = dict.fromkeys((*PEERS, *(peer for result in results for peer in result.peers)))
    names += [f"speedup_over_{peer}" for peer in peers] + ["missed", *description]
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, names, restval="")
        writer.writeheader()
        for result in results:
            values = result.row() | description
            writer.writerow({k: "" if v is None else v for k, v in values.items()})
