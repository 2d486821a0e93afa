"""The result of a case: one row of the tables and of the CSV file."""

from dataclasses import dataclass, field, fields

UNSTEADY = 0.2


def _compared(value, sign, target, unit=""):
    """Both numbers with as many digits as it takes to see that they differ."""
    digits = next((n for n in range(2, 9) if f"{value:.{n}f}" != f"{target:.{n}f}"), 9)
    return f"{value:.{digits}f}{unit} {sign} {target:.{digits}f}"


@dataclass
class Result:
    """A row; what does not apply to its kind of case is None."""

    case: str
    # speed, branches, latents, layer, layer memory, other, decode, memory, overhead, training
    kind: str
    operator: str
    dtype: str
    direction: str
    shape: str
    tokens: int | None = None  # context of a training step
    seconds: float | None = None  # of a call through MindSpore
    kernel_seconds: float | None = None  # of it, inside the native function
    attention_seconds: float | None = None  # of a layer's operators of attention, called alone
    product_seconds: float | None = None  # of its matrix products, called alone
    rate: float | None = None
    unit: str | None = None
    share: float | None = None  # of the rate of `share_of`
    share_of: str | None = None
    share_of_rate: float | None = None
    share_target: float | None = None
    peak: str | None = None  # instruction set whose multiply-adds bound the operator
    peak_rate: float | None = None  # of them, in GFLOP/s, in this run on as many threads
    peak_share: float | None = None
    speedup: float | None = None  # over the fastest dense attention, or over another NSA
    speedup_target: float | None = None
    baseline: str | None = None  # dtype that the time is compared with
    baseline_ratio: float | None = None  # time over the baseline's
    baseline_limit: float | None = None
    peers: dict = field(default_factory=dict)  # name -> peer's time over ours, or why there is none
    bytes: int | None = None  # inputs, outputs and scratch
    scratch_bytes: int | None = None
    resident_bytes: int | None = None  # the same as `bytes`, seen from outside: growth of VmHWM
    empty_seconds: float | None = None  # of a call of a Custom that does nothing
    ratio: float | None = (
        None  # bytes over inputs and outputs; a call over an empty one; a layer over its parts
    )
    resident_ratio: float | None = None
    ratio_limit: float | None = None
    spread: float | None = None  # by how much the rounds disagree: largest over smallest, less 1

    @classmethod
    def of(cls, case, **found):
        """The row of a case."""
        names = ("kind", "operator", "dtype", "direction")
        return cls(case=case.name, **{name: getattr(case, name) for name in names}, **found)

    def unsteady(self):
        """Whether the rounds disagree so much that something else must have been running."""
        return self.spread is not None and self.spread > UNSTEADY

    def missed(self):
        """The targets that this row misses, in words."""
        found = []
        if self.share_target is not None and self.share < self.share_target:
            found.append(f"share {_compared(self.share, '<', self.share_target)}")
        if self.speedup_target is not None and self.speedup < self.speedup_target:
            found.append(f"speedup {_compared(self.speedup, '<', self.speedup_target)}")
        if self.baseline_limit is not None and self.baseline_ratio > self.baseline_limit:
            unit = f"x {self.baseline}"
            found.append(f"{_compared(self.baseline_ratio, '>', self.baseline_limit, unit)}x")
        for name in ("ratio", "resident_ratio"):
            value = getattr(self, name)
            if self.ratio_limit is not None and value is not None and value > self.ratio_limit:
                text = _compared(value, ">", self.ratio_limit)
                found.append(f"{name.replace('_', ' ')} {text}")
        return found

    def row(self):
        """Column -> text for CSV; one column per peer."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "peers"}
        values |= {f"speedup_over_{name}": value for name, value in sorted(self.peers.items())}
        values["missed"] = "; ".join(self.missed())
        return values
