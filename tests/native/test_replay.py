"""The native operators without Python: misaligned exact-size tensors, NaN in outputs and scratch,
the same bits for 1, 2 and 5 threads, under sanitizers, on an emulated Arm processor and, where the
machine has no AVX-512, on a model of its instructions."""

import collections
import functools

import numpy as np
import pytest

from mindspore_nsa import _native
from mindspore_nsa.testing.dtypes import decode
from tests.common.cases import compare, make_case, odd_size_cases, parity_cases, share_cases
from tests.common.extreme_integers import answered_cases
from tests.common.large_scores import check_gradient, large_scores
from tests.common.many_keys import many_keys_cases
from tests.common.planted import OPERATORS, nan_row_cases, planted_cases, vanishing_cases

from . import builds
from .casefile import read_results, write_cases
from .spoiled import spoiled_cases

# Seeds of random cases by form; emulation and sanitizers are slow. The kernels' own tests draw more
# of them, and make soak in every form.
SEEDS = {
    "plain": 120,
    "asan": 40,
    "asan_avx512": 120,
    "neon": 16,
    "neon_o3": 16,
    "avx512_model": 40,
}
# Numbers of calls that are wrong in one place.
SPOILED = {
    "plain": 200,
    "asan": 80,
    "asan_avx512": 120,
    "neon": 40,
    "neon_o3": 40,
    "avx512_model": 80,
}
# Numbers of calls with infinity and NaN, for every operator.
PLANTED = {"plain": 6, "asan": 4, "asan_avx512": 4, "neon": 2, "neon_o3": 2, "avx512_model": 3}
# One of so many cases of an operator and dtype: portable code takes as long as that of all other
# instruction sets, whose loops are the same.
STRIDES = {("plain", "scalar"): 3, ("asan_avx512", "scalar"): 4}
# Cases of so many elements: portable code has no tiles, and the plain form replays large calls.
MOST_ELEMENTS = {(form, "scalar"): 1 << 16 for form in ("asan", "neon", "neon_o3")}
# Larger named cases are left to the plain form.
SMALL = 3 << 17
# The kernels for AMX on a model of its instructions, which takes long: only what differs from
# avx512_bf16, and no large cases.
MODEL = "avx512_amx_model"
WIDE_ISAS = ["avx512_bf16", "avx512"]
FORMS = [builds.PLAIN, builds.ADDRESS, builds.NEON]
if "avx2" in _native.available_isas() and WIDE_ISAS[0] not in _native.available_isas():
    FORMS.append(builds.WIDE)
# Forms that `make test` leaves out.
SOAKED = [builds.NEON_O3]
if "avx512" in _native.available_isas():
    SOAKED.append(builds.ADDRESS_AVX512)
# Forms with the model, which exists for this processor only.
MODELLED = [build for build in FORMS if build is builds.WIDE]
if WIDE_ISAS[0] in _native.available_isas():
    MODELLED.append(builds.PLAIN)


def _elements(case):
    return sum(decode(x).size for x in case.inputs if x is not None)


# Drawn, and their expected outputs computed, once for all forms.
_random = functools.cache(make_case)
_planted = functools.cache(planted_cases)


@functools.cache
def _named():
    named = {**parity_cases(), **odd_size_cases(), **share_cases()}
    return [build() for build in named.values()]


@functools.cache
def _many_keys():
    return [build() for build in many_keys_cases().values()]


@functools.cache
def _not_numbers():
    return [*vanishing_cases(), *nan_row_cases()]


def replay_cases(form):
    """The right calls that a form replays."""
    named = _named()
    if form != "plain":
        named = [case for case in named if _elements(case) <= SMALL]
    if form in ("plain", "avx512_model"):  # others have no tiles
        named = [*named, *_many_keys()]
    planted = [
        case for op in OPERATORS for seed in range(PLANTED[form]) for case in _planted(op, seed)
    ]
    return [*named, *map(_random, range(SEEDS[form])), *planted, *_not_numbers()]


@pytest.fixture(
    scope="module",
    params=[*FORMS, *(pytest.param(build, marks=pytest.mark.soak) for build in SOAKED)],
    ids=lambda build: build.name,
)
def form(request):
    builds.need(request.param)
    return request.param


@pytest.fixture(scope="module")
def program(form):
    return builds.compile_replay(form)


@pytest.fixture(scope="module")
def cases(form):
    return replay_cases(form.name)


def _isas(form, program):
    done = builds.run_replay(form, program, "-", "-", "?")
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def expected_isas(form):
    """Instruction sets of this machine; the model stands before the last and needs AVX512-BF16."""
    isas = _native.available_isas()
    if form in (builds.NEON, builds.NEON_O3):
        return ["neon", "scalar"]
    if form is builds.WIDE:
        return [*WIDE_ISAS, "avx2", MODEL, "scalar"]
    if form is builds.ADDRESS:
        return [isa for isa in isas if not isa.startswith("avx512")]
    return [*isas[:-1], MODEL, isas[-1]] if "avx512_bf16" in isas else isas


def _in_pieces(case):
    """Whether a float32 or float16 call may multiply on tiles, of a gradient its scores."""
    # All heads of a token may be in that dimension.
    dim, heads = decode(case.inputs[0]).shape[-1], case.attrs.get("head_num", 1)
    if dim % 32 != 0:
        return False
    forward = case.op.removesuffix("Grad")
    if forward == "NsaSelectedAttention":
        return heads % 16 == 0
    return forward in ("NsaCompressAttention", "FlashAttentionScore") and (
        heads % 16 == 0 or dim >= 128
    )


def modelled(cases):
    """The cases whose products the model runs: of bfloat16, or of sums of such numbers."""
    return [
        case
        for case in cases
        if _elements(case) <= SMALL and (case.dtype == "bfloat16" or _in_pieces(case))
    ]


def every(stride, cases):
    """The first case of every operator and dtype, and each that comes `stride` after such a one."""
    seen = collections.Counter()
    kept = []
    for case in cases:
        if seen[case.op, case.dtype] % stride == 0:
            kept.append(case)
        seen[case.op, case.dtype] += 1
    return kept


def smaller(most, cases):
    """The cases of at most so many elements, or the smallest one of an operator and dtype."""
    smallest = {}
    for case in sorted(cases, key=_elements, reverse=True):
        smallest[case.op, case.dtype] = case
    kept = {id(case) for case in smallest.values()}
    return [case for case in cases if _elements(case) <= most or id(case) in kept]


def wrong(form, program, cases, isa, folder):
    """Errors in the outputs of right calls on an instruction set, a line for each."""
    write_cases(folder / "cases", cases)
    done = builds.run_replay(form, program, folder / "cases", folder / isa, isa)
    assert done.returncode == 0, f"{isa}: {done.stdout}{done.stderr[-5000:]}"
    results = read_results(folder / isa)
    assert len(results) == len(cases)
    failures = []
    for case, result in zip(cases, results):
        try:
            assert not result.error, f"{case}: {result.error}"
            with np.errstate(invalid="ignore"):
                compare(case, result.outputs)
        except AssertionError as error:
            failures.append(f"{isa}: {error}")
    return failures


def test_right_calls(form, program, cases, tmp_path):
    isas = _isas(form, program)
    assert isas == expected_isas(form)
    if form is builds.WIDE:  # the others are in the plain form
        isas = [*WIDE_ISAS, MODEL]
    failures = []
    for isa in isas:
        most = MOST_ELEMENTS.get((form.name, isa))
        kept = every(STRIDES.get((form.name, isa), 1), smaller(most, cases) if most else cases)
        failures += wrong(form, program, modelled(kept) if isa == MODEL else kept, isa, tmp_path)
    assert not failures, f"{len(failures)} failures\n" + "\n".join(failures[:10])


@pytest.mark.parametrize("form", MODELLED, ids=lambda b: b.name, indirect=True)
def test_gradients_of_large_scores(form, program, tmp_path):
    """On the model of AMX, where forwards run on bf16x3."""
    # Compressed keys, many tokens of them, are only few here.
    names = [name for name in large_scores() if name != "compressed float16"]
    workloads = [large_scores()[name]() for name in names]

    def replay(cases):
        write_cases(tmp_path / "cases", cases)
        done = builds.run_replay(form, program, tmp_path / "cases", tmp_path / "results", MODEL)
        assert done.returncode == 0, done.stdout + done.stderr[-5000:]
        results = read_results(tmp_path / "results")
        assert not any(result.error for result in results)
        return [result.outputs for result in results]

    outputs = replay([workload.forward for workload in workloads])
    gradients = replay([w.gradient(out) for w, out in zip(workloads, outputs, strict=True)])
    for workload, ours in zip(workloads, gradients, strict=True):
        check_gradient(workload, ours)


@pytest.mark.parametrize("form", [builds.ADDRESS], ids=lambda b: b.name, indirect=True)
def test_extreme_integers(form, program, tmp_path):
    """No sum or product of the largest sizes and indices leaves its type."""
    cases = answered_cases(range(1))
    assert len({case.op for case in cases}) >= 16 and len(cases) >= 200
    write_cases(tmp_path / "cases", cases)
    isa = expected_isas(form)[0]
    done = builds.run_replay(form, program, tmp_path / "cases", tmp_path / "results", isa)
    assert done.returncode == 0, done.stdout + done.stderr[-5000:]
    results = read_results(tmp_path / "results")
    assert not any(result.error for result in results)


def test_spoiled_calls(form, program, tmp_path):
    """Wrong lists and shapes end in the sentence that Python users see, before any kernel."""
    cases = spoiled_cases(range(SPOILED[form.name]))
    assert len(cases) >= SPOILED[form.name]
    write_cases(tmp_path / "cases", cases)
    done = builds.run_replay(form, program, tmp_path / "cases", tmp_path / "results", "scalar")
    assert done.returncode == 0, done.stdout + done.stderr[-5000:]
    for case, result in zip(cases, read_results(tmp_path / "results"), strict=True):
        with pytest.raises(ValueError) as caught:
            _native.run(case.op, case.inputs, case.attrs)
        assert result.error == str(caught.value), str(case)


def test_file_format(tmp_path):
    """The program writes what the binding returns, bit for bit."""
    program = builds.compile_replay(builds.PLAIN)
    cases = [make_case(seed) for seed in range(40)]
    write_cases(tmp_path / "cases", cases)
    done = builds.run_replay(
        builds.PLAIN, program, tmp_path / "cases", tmp_path / "results", _native.isa()
    )
    assert done.returncode == 0, done.stderr
    for case, result in zip(cases, read_results(tmp_path / "results"), strict=True):
        for ours, theirs in zip(
            _native.run(case.op, case.inputs, case.attrs), result.outputs, strict=True
        ):
            bits = [x[1] if isinstance(x, tuple) else x for x in (ours, theirs)]
            assert bits[0].dtype == bits[1].dtype and bits[0].shape == bits[1].shape
            assert np.array_equal(bits[0].view(np.uint8), bits[1].view(np.uint8)), str(case)
