"""Mutants that nobody can tell from the program: (file, lines before, lines after): why."""

EQUIVALENT = {
    (
        "ascendc/compress/segment_cursor.h",
        "int64_t first_window = 0, first_slice = 0; // of all windows, of all covered slices",
        "int64_t first_window = (0 - 1), first_slice = 0; // of all windows, of all covered slices",
    ): "Start() sets it before anything reads it",
    (
        "cpu/engine/step/decode.h",
        "else if (how_ == Prefetch::kNearOnce)",
        "else if (!(how_ == Prefetch::kNearOnce))",
    ): "it says which cache a line is fetched into; no value depends on it",
    (
        "cpu/nsa_compress/grad_kernel.h",
        "for (int m = 0; m < K; ++m)",
        "for (int m = 0; m <= K; ++m)",
    ): "to(i), the first window behind, is at most K: the last turn does nothing",
    (
        "cpu/engine/threads/scratch.cc",
        "if (bytes + kHeader >= kHugePage) madvise(memory, total, MADV_HUGEPAGE);",
        "if (bytes + kHeader > kHugePage) madvise(memory, total, MADV_HUGEPAGE);",
    ): "the advice changes no value, and memory of exactly that size may go without",
    (
        "cpu/sparse_flash_attention/entry.cc",
        "if (grad.R > 0) grad.dk_rope = sums(p.dk_rope, grad.R);",
        "if (grad.R > (0 - 1)) grad.dk_rope = sums(p.dk_rope, grad.R);",
    ): "R is at least 0; without rotary parts it is an array of no numbers, which nothing reads",
    (
        "infer/lightning_indexer_kl_loss.cc",
        "const bool known = dims.heads >= 0 && dims.key_heads > 0;",
        "const bool known = dims.heads >= 0 && dims.key_heads >= 0;",
    ): "N2 of key is unknown or at least 1: a key without heads has been refused before",
    (
        "ascendc/nsa_compress_attention/op_host/nsa_compress_attention_tiling.h",
        "int64_t queries = 0, keys = 0; // T1, T2",
        "int64_t queries = (0 - 1), keys = 0; // T1, T2",
    ): "whoever makes a call sets it before tiling reads it",
    (
        "mindspore_nsa/models/_cache_rows.py",
        "return lengths + 0",
        "return lengths - 0",
    ): "a new Tensor of the same integers either way",
    (
        "mindspore_nsa/nn/parallel/plan.py",
        "return max(1, int(np.bincount(worker, minlength=1).max()))",
        "return max(1, int(np.bincount(worker, minlength=(1 + 1)).max()))",
    ): "one more worker without windows does not change the largest number",
}
