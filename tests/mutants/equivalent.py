"""Mutants that nobody can tell from the program: (file, lines before, lines after): why."""

EQUIVALENT = {
    (
        "infer/flash_attention_layout.cc",
        "if (heads >= 0 && heads != dims.n1) {",
        "if (heads > 0 && heads != dims.n1) {",
    ): "N1 of query is unknown or at least 1: check_flash_operands has refused 0 before",
    (
        "infer/lightning_indexer_kl_loss.cc",
        "const bool known = dims.heads >= 0 && dims.key_heads > 0;",
        "const bool known = dims.heads >= 0 && dims.key_heads >= 0;",
    ): "N2 of key is unknown or at least 1: a key without heads has been refused before",
}
