"""Starts the kernels of a test library (harness.h) on NumPy arrays."""

import ctypes
import json
from dataclasses import dataclass, field

import numpy as np

INPUT, OUTPUT, INOUT, WORKSPACE, TILING = range(5)
UNSET, AIV_ONLY, AIC_ONLY, MIX_AIV_1_0, MIX_AIC_1_0, MIX_AIC_1_1, MIX_AIC_1_2 = range(7)
PIPES = ("S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX")


@dataclass
class Report:
    ok: bool
    error: str
    type: int = 0
    cores: int = 0
    warnings: list = field(default_factory=list)
    pipes: list = field(default_factory=list)
    unwritten: list = field(default_factory=list)
    clock: dict = field(default_factory=dict)  # modelled time, where it was asked for
    table: str = ""

    def pipe(self, name):
        return self.pipes[PIPES.index(name)]

    def kinds(self):
        return sorted(warning["kind"] for warning in self.warnings)

    def timed(self, pipe, core="AIV"):
        """Modelled time of one pipe."""
        return next(p for p in self.clock["pipes"] if (p["core"], p["pipe"]) == (core, pipe))

    def share(self, name, line=None):
        """Part of the critical path on an instruction, of one line of the source or of all."""
        path = [p for p in self.clock["critical_path"] if p["name"] == name]
        cycles = sum(p["cycles"] for p in path if line is None or p["line"] == line)
        return cycles / self.clock["cycles"]


class Library:
    """The kernels of one shared library."""

    def __init__(self, path):
        self._library = ctypes.CDLL(str(path))
        self._run = self._library.twin_run
        self._run.restype = ctypes.c_char_p

    def function(self, name):
        """A C function of the library itself."""
        return getattr(self._library, name)

    def time(self, kernel, *arguments, chip="910B1", cost="", value=0.0, trace="", **options):
        """Launches with modelled time."""
        set_next = self._library.twin_time_next
        set_next.restype = ctypes.c_bool
        set_next.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_double, ctypes.c_char_p]
        assert set_next(chip.encode(), cost.encode(), value, str(trace).encode())
        return self.launch(kernel, *arguments, **options)

    def carry(self, kernel, *arguments, **options):
        """Launches where bytes without a value travel with what is computed from them."""
        self._library.twin_carry_next()
        return self.launch(kernel, *arguments, **options)

    def launch(self, kernel, buffers=(), numbers=(), *, block_dim=1, seed=0, key=0, type=UNSET):
        """Report of one launch; `buffers` are (role, array), `numbers` integers for the kernel."""
        arrays = [array for _, array in buffers]
        assert all(array.flags.c_contiguous for array in arrays)
        count = len(arrays)
        addresses = (ctypes.c_void_p * max(count, 1))(*[a.ctypes.data for a in arrays])
        sizes = (ctypes.c_uint64 * max(count, 1))(*[a.nbytes for a in arrays])
        roles = (ctypes.c_int * max(count, 1))(*[role for role, _ in buffers])
        values = np.asarray([*numbers, 0], np.int64)
        text = self._run(
            kernel.encode(),
            ctypes.c_int(block_dim),
            ctypes.c_uint64(seed),
            ctypes.c_uint64(key),
            ctypes.c_int(type),
            ctypes.c_int(count),
            addresses,
            sizes,
            roles,
            ctypes.c_void_p(values.ctypes.data),
        )
        return Report(**json.loads(text.decode()))
