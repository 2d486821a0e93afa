"""Which tests are responsible for a source file, and what has to be built for them."""

import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path


@dataclass(frozen=True)
class Judge:
    """A run of pytest. `target` is what has to be built before, None where the tests build."""

    tests: tuple
    target: str | None = "_native"
    mindspore: bool = True

    def __str__(self):
        return " ".join(self.tests)


def _kernels(*tests):
    # One compiles a Cell, the other one fails now and then where the kernels are slow.
    names = ("test_forks.py::test_a_compiled_cell", "test_team.py::test_a_daemon_outlives")
    without = [f"--deselect=tests/kernels/{name}" for name in names]
    return Judge((*tests, *without), mindspore=False)


SWEEP = _kernels("tests/kernels/test_sweep.py")
KERNELS = _kernels("tests/kernels")
RULES = Judge(("tests/infer",), mindspore=False)
SMOKE = Judge(("tests/smoke/test_every_operator.py",))
LAYERS = Judge(("tests/smoke/test_every_layer.py",))
TARGETS = ("tests/ascendc/test_target_*.py", "tests/ascendc/test_operators.py")
# Runners of tests/ascendc compile kernels and tilings themselves.
RUNNERS = {
    "attention": ("flash_attention_score*", "nsa_selected_attention", "nsa_compress_attention"),
    "compress": ("nsa_compress", "nsa_compress_with_cache"),
    "decoding": ("nsa_decode", "*_infer", "nsa_cache_step"),
    "nsa_compress_grad": ("nsa_compress",),
    "flash_attention_score_grad": ("flash_attention_score*",),
    "nsa_selected_attention_grad": ("nsa_selected_attention*",),
}


def _tests(root, folder, *patterns):
    """The test files of these names that there are, together one judge's tests."""
    found = {str(p.relative_to(root)) for x in patterns for p in root.glob(f"tests/{folder}/{x}")}
    return (tuple(sorted(found)),) if found else ()


def _cpu(root, file):
    words = re.sub(r"^nsa_", "", Path(file).parent.name)
    named = _tests(root, "kernels", f"test_*{words}*.py")
    return [*(_kernels(*tests) for tests in named), SWEEP, KERNELS]


def _binding(root, file):
    errors = Judge(_tests(root, "ops", "test_errors.py", "test_defaults.py")[0])
    if Path(file).name.startswith(("ascend", "aclnn")):
        return [RULES, *_ascend(root), errors]
    return [RULES, SWEEP, KERNELS, SMOKE, errors]


def _ascend(root):
    return [Judge(tests, "operators") for tests in _tests(root, "ascendc", "test_target_*.py")]


def _ascendc(root, file):
    operator, part = Path(file).parts[1], Path(file).parts[2]
    names = RUNNERS.get(operator, (operator,)) if operator != "common" else ("nsa_*",)
    patterns = [f"test_{name}.py" for name in names]
    judges = [Judge(tests, None, False) for tests in _tests(root, "ascendc", *patterns)]
    if part in ("op_host", "op_api") or operator in ("common", "op_api"):
        judges += _ascend(root)
    return judges


def _ops(root, file):
    stem = Path(file).stem.strip("_")
    named = _tests(root, "ops", f"test_{stem}.py", f"test_{stem.removeprefix('nsa_')}*.py")
    more = _tests(root, "ops", "test_defaults.py", "test_plans.py", "test_errors.py")
    return [*map(Judge, named), SMOKE, Judge(more[0]), Judge(("tests/ops",))]


def _nn(root, file):
    stem = Path(file).stem.strip("_")
    named = _tests(root, "nn", f"test_{stem}*.py", f"test_*{stem.split('_')[0]}*.py")
    return [LAYERS, *map(Judge, named), Judge(("tests/nn", "--ignore", "tests/nn/parallel"))]


def _folder(*folders):
    return lambda root, file: [Judge(folders)]


# The first whose folder a file lies in.
RESPONSIBLE = {
    "cpu/": _cpu,
    "infer/": lambda root, file: [RULES, SWEEP, KERNELS, SMOKE],
    "binding/": _binding,
    "ascendc/": _ascendc,  # but for the examples, which are tests
    "mindspore_nsa/ops/": _ops,
    "mindspore_nsa/nn/parallel/": _folder("tests/nn/parallel"),
    "mindspore_nsa/nn/": _nn,
    "mindspore_nsa/integrations/": _folder("tests/integrations"),
}


def folder_of(file):
    """The folder of the table that a file lies in; None where nobody judges it."""
    if file.startswith("ascendc/examples/"):
        return None
    return next((folder for folder in RESPONSIBLE if file.startswith(folder)), None)


def judges_of(root, file):
    """The judges of a source file that this Python can run, each once."""
    found = dict.fromkeys(RESPONSIBLE[folder_of(file)](root, file))
    here = find_spec("mindspore") is not None
    return [judge for judge in found if here or not judge.mindspore]
