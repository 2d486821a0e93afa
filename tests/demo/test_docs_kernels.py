"""The numbers and names that the pages on the CPU kernels give are those of the sources."""

import re
from pathlib import Path

import pytest

from mindspore_nsa import _native

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("cpu_kernels.md", "cpu_measurements.md")
PAGE = " ".join(" ".join((ROOT / "docs" / name).read_text() for name in PAGES).split())

# File under cpu/, constant, its value as the source writes it, the words of the page.
CONSTANTS = (
    ("engine/plan/attention_plan.h", "kTileRows", "96", "pass each step 96 at a time"),
    ("engine/plan/attention_plan.h", "kTileSteps", "4", "once for four times 96"),
    ("engine/plan/attention_plan.h", "kKvBlockKeys", "64", "packed in KV blocks of 64"),
    ("engine/plan/attention_plan.h", "kTileKeys", "128", "a step of 128 keys"),
    ("engine/plan/attention_plan.h", "kCutRows", "24", "taken 24 at a time"),
    ("engine/plan/make_plan.cc", "kScores", "1 << 18", "fit 2^18 scores"),
    ("engine/step/amx_buffers.h", "kMost", "3", "up to three KV blocks"),
    ("flash_attention_score/entry.cc", "kWholeKeys", "1024", "sees about 1024 keys at most"),
    ("flash_attention_score/entry.cc", "kWholeSlots", "16", "otherwise 16 slots"),
    ("flash_attention_score/entry.cc", "kChunkRows", "1536", "shorter, of 1536 rows"),
    ("engine/plan/grad_schedule.h", "kWaitingWorkItems", "128", "out of the next 128"),
    ("engine/plan/make_plan.h", "kKeyChunks", "64", "at most 32 of all segments"),
    ("nsa_selected_attention/entry.cc", "kFirstBlockPartials", "4", "at least four partial sums"),
    ("nsa_selected_attention/entry.cc", "kManyChunks", "64", "a 64th of a sequence"),
    ("nsa_selected_attention/entry.cc", "kLongRows", "8192", "at most 8192 rows"),
    ("nsa_compress/compress_plan.h", "kCompressGradTokens", "256", "at most 256 tokens"),
    ("nsa_compress/rows.h", "kBytes", "32 * 1024", "read 32 KB later"),
    ("engine/threads/scratch.cc", "kKept", "64 << 20", "at most 64 MiB"),
)

# The page's table of sizes by variant has for each of these: row, member, value, the page's words.
TUNING = (
    ("Vectors", "select_rows", 512, "512 rows, more in long"),
    ("Vectors", "select_most_rows", 4096, "as many rows, up to 4096,"),
    ("Vectors", "select_meeting_rows", 64, "let 64 of them meet"),
    ("Tiles", "select_grad_keys", 512, "512 keys instead of 256"),
    ("Vectors", "select_grad_keys", 256, "512 keys instead of 256"),
    ("Tiles", "select_rows", 1024, "chunk of 1024 rows"),
    ("Tiles", "select_most_rows", 2048, "up to 2048 of long"),
    ("Bf16x3", "select_most_rows", 1024, "chunks are of 1024 rows"),
    ("Tiles", "select_range_blocks", 20, "passes 20 blocks in turn"),
    ("Bf16x3", "select_range_blocks", 8, "passes 8 blocks in turn"),
    ("Tiles", "compress_tile_times", 4, "a tile has four times"),
)


@pytest.mark.parametrize("variant, name, value, words", TUNING, ids=lambda x: str(x))
def test_tuning(variant, name, value, words):
    source = (ROOT / "cpu" / "engine" / "plan" / "tuning.h").read_text()
    row = re.search(rf"kTuningOf{variant} = \{{(.*?)\}};", source)[1].split(", ")
    members = re.findall(r"^  int64_t (\w+);", source, re.MULTILINE)
    assert len(row) == len(members) and int(row[members.index(name)]) == value
    assert words in PAGE


@pytest.mark.parametrize("file, name, value, words", CONSTANTS, ids=lambda x: str(x))
def test_constants(file, name, value, words):
    source = (ROOT / "cpu" / file).read_text()
    assert re.search(rf"constexpr int64_t {name} = (.*?);", source)[1] == value
    assert words in PAGE


def constant(name):
    """The number of a constant of the plan."""
    source = (ROOT / "cpu" / "engine" / "plan" / "attention_plan.h").read_text()
    return int(re.search(rf"constexpr int64_t {name} = (\d+);", source)[1])


def test_rows_of_a_tile():
    source = (ROOT / "cpu" / "engine" / "plan" / "make_plan.cc").read_text()
    assert "return kTileRows * max64(1, min64(kTileSteps, steps / kTiles));" in source
    assert f"its rows, up to {constant('kTileRows') * constant('kTileSteps')} where" in PAGE


def test_rows_of_a_sum():
    source = (ROOT / "cpu" / "engine" / "step" / "kernel_variant.h").read_text()
    assert "constexpr int kDots = 8;" in source
    assert "eight rows are added side by side" in PAGE


def test_chunks_of_the_gradient():
    source = (ROOT / "cpu" / "flash_attention_score/entry.cc").read_text()
    lengths = []
    for before, unit in (
        ("largest = ", "kTileRows"),
        ("seg.kv_len, chunks, kKvBlockKeys,\n                             ", "kKvBlockKeys"),
    ):
        long_ones = r"long_chunks_(?: \|\| plan\.uses_tile16\(\))?"
        largest = rf"{re.escape(before)}\({long_ones} \? (\d+) : (\d+)\) \* {unit}"
        long, short = map(int, re.search(largest, source).groups())
        assert long == 2 * short  # "half of that"
        lengths.append(long * constant(unit))
    queries, keys = lengths
    assert (
        f"chunks of at most {queries} and its keys into chunks of at most {keys} "
        "(half of that where there would be few chunks)"
    ) in PAGE


WALK = (ROOT / "docs" / "cpu_kernels.md").read_text()


def test_a_page_for_newcomers():
    assert WALK.count("\n") <= 150


def check_names(section):
    """Every function and struct of a line stands in a file of the line, or of the one above it."""
    rows = re.findall(r"^\|(.*?)\| (`.*?`) (?:\||$)", section, re.MULTILINE)
    assert len(rows) >= 15
    texts = ""
    for files, names in rows:
        if links := re.findall(r"\]\(\.\./(.*?)\)", files):
            texts = "".join((ROOT / link).read_text() for link in links)
        for name in re.findall(r"`(\w+)`", names):
            assert re.search(rf"\b{name}\b", texts), (files, name)


def test_the_walk_names_what_is_there():
    check_names(WALK[WALK.index("### From a public function") : WALK.index("## The product")])


def test_the_ways_from_the_layer_name_what_is_there():
    page = (ROOT / "docs" / "layer_to_kernel.md").read_text()
    assert page.count("\n") <= 80
    sections = page.split("\n## ")[1:]
    assert len(sections) == 2
    for section in sections:
        check_names(section)


def test_instruction_sets():
    """One row for every unit, named as the library names them."""
    tables = (path.read_text() for path in (ROOT / "cpu" / "dispatch").glob("isa_*.cc"))
    names = {re.search(r'make_table\w*\("(\w+)"\)', table)[1] for table in tables}
    section = PAGE[PAGE.index("## Instruction sets") :]
    listed = re.findall(r"\| `(\w+)` \| \d+ \|", section)
    assert set(listed) == names
    available = _native.available_isas()
    assert available == [name for name in listed if name in available]  # best first
