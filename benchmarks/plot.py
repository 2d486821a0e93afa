"""Figures of a run as a picture, and the timeline of a core."""

from functools import partial

from . import report


def require(what="--png"):
    """Fail before the measurement if the picture could not be drawn after it."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise SystemExit(f"{what} needs matplotlib: pip install '.[bench]' in the clone") from error


def _bars(results, values, limits, title, good_above, axes):
    places = range(len(results))
    colors = [
        "tab:gray" if limit is None else "tab:green" if (v >= limit) == good_above else "tab:red"
        for v, limit in zip(values, limits, strict=True)
    ]
    axes.barh(places, values, color=colors)
    for place, value, limit in zip(places, values, limits, strict=True):
        axes.text(value, place, f" {value:.2f}", va="center", fontsize=7)
        if limit is not None:
            axes.plot([limit, limit], [place - 0.4, place + 0.4], color="black")
    axes.set_yticks(places, [r.case for r in results], fontsize=7)
    axes.invert_yaxis()
    axes.set_title(title, fontsize=9)


def _speedups(results, axes):
    labels, values = [], []
    for result in results:
        for peer, value in sorted(result.peers.items()):
            if not isinstance(value, str):
                labels.append(f"{result.case} / {peer}")
                values.append(value)
    axes.barh(range(len(values)), values, color="tab:blue")
    for place, value in enumerate(values):
        axes.text(value, place, f" {value:.2f}", va="center", fontsize=7)
    axes.set_yticks(range(len(labels)), labels, fontsize=7)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.invert_yaxis()
    axes.set_title("time of dense attention over ours, same sequence", fontsize=9)


def write_png(path, results, description):
    """Bars per kind of case; a black mark is the target."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    speed, branches, layer, training, memory, overhead = (
        [r for r in results if r.kind == kind]
        for kind in ("speed", "branches", "layer", "training", "memory", "overhead")
    )
    compared = speed + branches + training
    panels = []
    if speed:
        shares = [r.share for r in speed], [r.share_target for r in speed]
        title = "share of the fp32 GEMM rate, or of the copy bandwidth"
        panels.append((len(speed), partial(_bars, speed, *shares, title, True)))
    if branches:
        shares = [r.share for r in branches], [r.share_target for r in branches]
        title = (
            "three branches: speedup over the fastest dense attention, share of the ratio of pairs"
        )
        panels.append((len(branches), partial(_bars, branches, *shares, title, True)))
    peers = sum(not isinstance(v, str) for r in compared for v in r.peers.values())
    if peers:
        panels.append((peers, partial(_speedups, compared)))
    for found, title in (
        (layer, "time of the layer's step over its attention and matrix products alone"),
        (memory, "memory over inputs, outputs and gradients"),
        (overhead, "time of a tiny call over an empty one"),
    ):
        if found:
            ratios = [r.ratio for r in found], [r.ratio_limit for r in found]
            panels.append((len(found), partial(_bars, found, *ratios, title, False)))
    heights = [rows + 3 for rows, _ in panels] or [1]
    figure, axes = pyplot.subplots(
        len(heights),
        1,
        figsize=(11, 0.24 * sum(heights) + 1),
        squeeze=False,
        height_ratios=heights,
        layout="constrained",
    )
    for one, (_, draw) in zip(axes[:, 0], panels):
        draw(one)
    figure.suptitle(report.machine_line(description), fontsize=7, wrap=True)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def write_timeline(path, trace, core=None):
    """The pipes of one core as rows, from a trace of the twin's clock.

    `core` is a name such as "AIV 3.0"; without one it is the core that ends last.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    events = trace["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    slices = [e for e in events if e["ph"] == "X"]
    if core is None:
        pid = max(slices, key=lambda e: e["ts"] + e["dur"])["pid"]
    else:
        pid = next(p for p, name in names.items() if name == core)
    pipes = {
        e["tid"]: e["args"]["name"]
        for e in events
        if e["name"] == "thread_name" and e["pid"] == pid
    }
    mine = [e for e in slices if e["pid"] == pid]
    used = sorted({e["tid"] for e in mine})
    kinds = sorted({e["name"] for e in mine})
    colors = pyplot.get_cmap("tab20")
    figure, axes = pyplot.subplots(figsize=(13, 1.2 + 0.5 * len(used)), layout="constrained")
    for place, kind in enumerate(kinds):
        for row, pipe in enumerate(used):
            spans = [(e["ts"], e["dur"]) for e in mine if (e["tid"], e["name"]) == (pipe, kind)]
            axes.broken_barh(spans, (row - 0.4, 0.8), color=colors(place % 20))
        axes.plot([], [], color=colors(place % 20), linewidth=6, label=kind)
    axes.set_yticks(range(len(used)), [pipes[pipe] for pipe in used])
    axes.invert_yaxis()
    axes.set_xlabel("modelled time, us")
    kernel = trace["otherData"]
    axes.set_title(f"{kernel['kernel']} on Ascend{kernel['chip']}, {names[pid]}", fontsize=9)
    axes.legend(fontsize=7, ncols=2, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
