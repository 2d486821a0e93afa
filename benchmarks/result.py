"""What a case found, as one row of the tables and of the CSV file."""

from dataclasses import dataclass, field, fields


@dataclass
class Result:
    """A row; what does not apply to its kind of case is None."""

    case: str
    kind: str  # speed, memory, overhead, training
    operator: str
    dtype: str
    direction: str
    shape: str
    tokens: int | None = None  # context of a training step
    seconds: float | None = None  # of a call through MindSpore
    kernel_seconds: float | None = None  # of it, inside the native function
    rate: float | None = None
    unit: str | None = None
    share: float | None = None  # of the rate of `share_of`
    share_of: str | None = None
    share_of_rate: float | None = None
    share_target: float | None = None
    baseline: str | None = None  # dtype that the time is compared with
    baseline_ratio: float | None = None  # time over the baseline's
    baseline_limit: float | None = None
    peers: dict = field(default_factory=dict)  # name -> peer's time over ours, or why there is none
    bytes: int | None = None  # inputs, outputs and scratch
    scratch_bytes: int | None = None
    resident_bytes: int | None = None  # the same as `bytes`, seen from outside: growth of VmHWM
    empty_seconds: float | None = None  # of a call of a Custom that does nothing
    ratio: float | None = (
        None  # memory: bytes over inputs and outputs; overhead: over an empty call
    )
    resident_ratio: float | None = None
    ratio_limit: float | None = None

    def missed(self):
        """The targets that this row misses, in words."""
        found = []
        if self.share_target is not None and self.share < self.share_target:
            found.append(f"share {self.share:.2f} < {self.share_target:.2f}")
        if self.baseline_limit is not None and self.baseline_ratio > self.baseline_limit:
            found.append(f"{self.baseline_ratio:.2f}x {self.baseline} > {self.baseline_limit:.2f}x")
        for name in ("ratio", "resident_ratio"):
            value = getattr(self, name)
            if self.ratio_limit is not None and value is not None and value > self.ratio_limit:
                found.append(f"{name.replace('_', ' ')} {value:.2f} > {self.ratio_limit:.2f}")
        return found

    def row(self):
        """Column -> text for CSV; one column per peer."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "peers"}
        values |= {f"speedup_over_{name}": value for name, value in sorted(self.peers.items())}
        values["missed"] = "; ".join(self.missed())
        return values
