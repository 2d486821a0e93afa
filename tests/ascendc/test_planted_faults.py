"""Faults planted in copies of the attention kernels: a few of those of `tests/ascendc/planted`."""

import importlib
from dataclasses import replace

import pytest

from .planted.judge import FaultError, changed_text, dtype_of, judge, judged, library
from .planted.kernels import KERNELS

# One of each kernel, and a few of its checks, in the order in which they are made.
CHOSEN = {
    "flash_attention_score": "statistics start",
    "flash_attention_score_grad": "slot of a step",
    "nsa_cache_step": "row of the cache",
    "nsa_compress_attention": "both vector cores hand over",
    "nsa_compress_attention_infer": "what lies behind the keys",
    "nsa_decode": "gate of the branch",
    "nsa_selected_attention": "doubled blocks",
    "nsa_selected_attention_grad": "lists of all blocks",
    "nsa_selected_attention_infer": "first key of a split",
}
MOST_CHECKS = 12


@pytest.mark.parametrize("name", KERNELS)
def test_planted_texts_occur_once(name):
    faults = KERNELS[name].faults
    assert len(faults) >= 40
    for fault in faults:
        changed_text(fault, faults[fault])


@pytest.mark.parametrize("name", KERNELS)
def test_the_suite_draws_what_finds_the_faults(name):
    """The configurations among the checks are those of the kernel's own tests."""
    planted = importlib.import_module(f"tests.ascendc.planted.{name}")
    drawn = planted.tests.CONFIGURATIONS
    assert set(planted.SEEDS) <= set(range(drawn) if isinstance(drawn, int) else drawn)


@pytest.mark.parametrize("name", KERNELS)
def test_faults_are_found(name):
    kernel, fault = KERNELS[name], KERNELS[name].faults[CHOSEN[name]]
    dtype = dtype_of(fault)
    checks = dict(list(kernel.checks(dtype).items())[:MOST_CHECKS])
    faulty = kernel.runner(library(kernel, dtype, CHOSEN[name], fault))
    assert judged(faulty, checks)


def test_a_fault_has_to_compile():
    kernel = KERNELS["flash_attention_score_grad"]
    fault = {"none": (*kernel.faults["half of a vector core"][:2], "; else")}
    broken = replace(kernel, faults=fault, checks=lambda dtype: {})
    ((name, _, found),) = judge(broken, ["none"], 1, 1)
    assert name == "none" and isinstance(found, FaultError) and "does not compile" in str(found)
