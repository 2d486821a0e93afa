"""Which of the faults of tests/ascendc/planted a mutation makes anyway: they need no line there.

python -m tests.mutants.by_hand
"""

import re

from tests.ascendc.planted.kernels import KERNELS

from .copy import ROOT
from .cpp_places import places
from .cpp_units import kernels_unit
from .mutant import read


def _shape(text):
    """A source without spaces and empty statements."""
    return re.sub(r"\s+", "", text.replace("(void)0;", ""))


def made_anyway():
    """(kernel, name of the fault, kind of mutation) of each."""
    unit, mutants = kernels_unit(ROOT), {}
    for kernel in KERNELS.values():
        for name, (file, old, new, *_) in kernel.faults.items():
            source = read(ROOT / file)
            if file not in mutants:
                found = places(ROOT, file, unit)
                mutants[file] = {_shape(one.applied(source)): one.kind for one in found}
            old, new = (text.encode().decode("latin-1") for text in (old, new))
            kind = mutants[file].get(_shape(source.replace(old, new)))
            if kind is not None:
                yield kernel.name, name, kind


if __name__ == "__main__":
    for line in made_anyway():
        print(*line, sep=", ")
