"""The families of mindone 0.5.0, a tiny model of each, and what becomes of it; data alone.

Keys of a case: family; model, the class; inputs, "text" or "seq2seq" (ids, with and without
padding) or "given"; extra, further inputs (a shape stands for drawn numbers); changes, fields of
the configuration; found, what the walk finds: "equal" to eager attention, "refused" with a text,
"eager" where mindone does not ask for the function, "error" of mindone's or MindSpore's own, and
"not run".
"""

# Fields of configurations and their sizes, where a configuration has them.
TINY = {
    **{"vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2},
    **{"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "d_model": 32},
    **{"max_position_embeddings": 64, "encoder_layers": 2, "decoder_layers": 2},
    **{"encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 48},
    **{"decoder_ffn_dim": 48, "num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4},
    **{"num_experts_per_tok": 2, "moe_intermediate_size": 16, "image_size": 16, "patch_size": 4},
    **{"n_embd": 32, "n_layer": 2, "n_head": 4, "n_inner": 48, "n_positions": 64},
    **{"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "num_mel_bins": 16},
    **{"shared_expert_intermediate_size": 16, "encoder_num_hidden_layers": 2},
    **{"decoder_num_hidden_layers": 2},
}
_NO_CACHE = {"use_cache": False}
_MAMBA = {
    **{"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 8, "mamba_n_groups": 1},
    "mamba_chunk_size": 8,
}
_GROUPS = {"n_group": 1, "topk_group": 1, "first_k_dense_replace": 1}
_MROPE = {"rope_scaling": {"type": "mrope", "mrope_section": [1, 1, 2]}}
_WINDOW = {"sliding_window": 3, "use_sliding_window": True, "max_window_layers": 0}
_PIXELS = {"pixel_values": (2, 3, 16, 16)}
_CAP = "softcap must be None"
_BAND = "must leave out keys before the window"


def _case(family, model, inputs="text", extra=None, found="equal", text="", **more):
    extra = (_NO_CACHE if inputs == "text" else {}) if extra is None else extra
    return {"family": family, "model": model, "inputs": inputs, "extra": extra, "found": found,
            "text": text, **more}  # fmt: skip


def _windows(family, model, found="equal", text="", **changes):
    """A window of three tokens."""
    return _case(family, model, changes={**_WINDOW, **changes}, found=found, text=text)


# Decoders of text whose sizes need nothing of their own.
_PLAIN = {
    **{"apertus": "Apertus", "arcee": "Arcee", "cohere2": "Cohere2", "doge": "Doge"},
    **{"ernie4_5": "Ernie4_5", "exaone4": "Exaone4", "flex_olmo": "FlexOlmo", "gemma": "Gemma"},
    **{"gemma3": "Gemma3", "glm": "Glm", "glm4": "Glm4", "gpt_bigcode": "GPTBigCode"},
    **{"gpt_neox": "GPTNeoX", "granite": "Granite", "helium": "Helium", "llama": "Llama"},
    **{"hunyuan_v1_dense": "HunYuanDenseV1", "hunyuan_v1_moe": "HunYuanMoEV1", "lfm2": "Lfm2"},
    **{"minimax": "MiniMax", "ministral": "Ministral", "mistral": "Mistral"},
    **{"mixtral": "Mixtral", "modernbert_decoder": "ModernBertDecoder", "olmo": "Olmo"},
    **{"olmo2": "Olmo2", "olmo3": "Olmo3", "phi": "Phi", "phi3": "Phi3", "qwen2": "Qwen2"},
    **{"qwen3": "Qwen3", "qwen3_moe": "Qwen3Moe", "seed_oss": "SeedOss", "smollm3": "SmolLM3"},
    **{"starcoder2": "Starcoder2", "emu3": "Emu3"},
}
_ENCODERS = {
    **{"aimv2": "Aimv2VisionModel", "deit": "DeiTModel", "dinov2": "Dinov2Model"},
    **{"dinov2_with_registers": "Dinov2WithRegistersModel", "dinov3_vit": "DINOv3ViTModel"},
    **{"internvl": "InternVLVisionModel", "janus": "JanusVisionModel"},
    **{"metaclip_2": "MetaClip2VisionModel", "mlcd": "MLCDVisionModel", "vit": "ViTModel"},
    **{"ovis2": "Ovis2VisionModel", "siglip": "SiglipVisionModel", "vit_msn": "ViTMSNModel"},
    **{"pixtral": "PixtralVisionModel"},
}

CASES = [
    *(_case(family, f"{name}ForCausalLM") for family, name in _PLAIN.items()),
    *(_case(family, model, "given", _PIXELS) for family, model in _ENCODERS.items()),
    _windows("cohere2", "Cohere2ForCausalLM"),
    _windows("exaone4", "Exaone4ForCausalLM"),
    _windows("gemma3", "Gemma3ForCausalLM"),
    _windows("ministral", "MinistralForCausalLM"),
    _windows("minimax", "MiniMaxForCausalLM"),
    _windows("modernbert_decoder", "ModernBertDecoderForCausalLM"),
    _windows("olmo3", "Olmo3ForCausalLM"),
    _windows("smollm3", "SmolLM3ForCausalLM"),
    _windows("starcoder2", "Starcoder2ForCausalLM"),
    _windows("qwen3_moe", "Qwen3MoeForCausalLM"),
    _windows("mistral", "MistralForCausalLM", "refused", _BAND),
    _windows("mixtral", "MixtralForCausalLM"),
    _windows("phi3", "Phi3ForCausalLM", "refused", _BAND),
    _windows("qwen2", "Qwen2ForCausalLM", "refused", _BAND),
    _windows("qwen3", "Qwen3ForCausalLM", "error", "Sliding window is not supported yet"),
    _case("gemma2", "Gemma2ForCausalLM", found="refused", text=_CAP),
    _windows("gemma2", "Gemma2ForCausalLM", attn_logit_softcapping=None),
    _case("vaultgemma", "VaultGemmaForCausalLM", found="refused", text=_CAP),
    _windows("vaultgemma", "VaultGemmaForCausalLM", attn_logit_softcapping=None),
    _case("t5gemma", "T5GemmaModel", "seq2seq", found="not run",
          text="its tiny model ends the process on a CPU"),
    _case("cohere", "CohereForCausalLM", found="eager"),
    _case("aria", "AriaTextForCausalLM",
          changes={"moe_num_experts": 4, "moe_topk": 2, "moe_num_shared_experts": 1}),
    _case("bamba", "BambaForCausalLM", changes={**_MAMBA, "attn_layer_indices": [1]}),
    _case("granitemoehybrid", "GraniteMoeHybridForCausalLM", changes={
        **_MAMBA, "layer_types": ["mamba", "attention"], "shared_intermediate_size": 16}),
    _case("falcon_h1", "FalconH1ForCausalLM",
          changes={**_MAMBA, "mamba_d_ssm": 32, "mamba_n_heads": 4}),
    _case("zamba", "ZambaForCausalLM", changes={
        **{"num_hidden_layers": 3, "layers_block_type": ["mamba", "hybrid", "mamba"]},
        **{"attn_layer_offset": 1, "attn_layer_period": 2, "mamba_d_state": 8},
        **{"n_mamba_heads": 2, "attention_hidden_size": 64, "attention_head_dim": 16},
        "use_mamba_kernels": False}),
    _case("zamba2", "Zamba2ForCausalLM", changes={
        **{"num_hidden_layers": 3, "layers_block_type": ["mamba", "hybrid", "mamba"]},
        **{"mamba_d_state": 8, "n_mamba_heads": 8, "mamba_headdim": 8, "mamba_ngroups": 1},
        **{"num_mem_blocks": 1, "use_mem_eff_path": False, "chunk_size": 8}}),
    _case("deepseek_v2", "DeepseekV2ForCausalLM", changes={
        **{"num_key_value_heads": 4, "kv_lora_rank": 16, "q_lora_rank": None, "n_group": 1},
        **{"qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 16, "topk_group": 1},
        "topk_method": "greedy"}),
    _case("dots1", "Dots1ForCausalLM", changes={**_GROUPS, "n_shared_experts": 1}),
    _case("glm4_moe", "Glm4MoeForCausalLM", changes=_GROUPS),
    _case("ernie4_5_moe", "Ernie4_5_MoeForCausalLM",
          changes={"moe_k": 2, "moe_num_experts": 4, "moe_layer_start_index": 1}),
    _case("qwen3_next", "Qwen3NextForCausalLM",
          changes={"layer_types": ["linear_attention", "full_attention"]}),
    _case("csm", "CsmBackboneModel", "given",
          {"input_ids": ("ids", (2, 8, 4)), "use_cache": False,
           "attention_mask": ("array", [[0] * 3 + [1] * 5, [1] * 8])},
          changes={"num_codebooks": 4}, rows=[[3, 8], [0, 8]]),
    _case("qwen2_5_vl", "Qwen2_5_VLTextModel", changes=_MROPE),
    _case("qwen2_5_omni", "Qwen2_5OmniThinkerTextModel", changes=_MROPE),
    _case("qwen3_vl", "Qwen3VLTextModel", changes=_MROPE),
    _case("qwen3_vl_moe", "Qwen3VLMoeTextModel", changes=_MROPE),
    _case("qwen3_omni_moe", "Qwen3OmniMoeThinkerTextModel", changes=_MROPE),
    _case("glm4v", "Glm4vTextModel", config="Glm4vTextConfig", changes=_MROPE),
    _case("kosmos2_5", "Kosmos2_5TextForCausalLM",
          changes={"embed_dim": 32, "layers": 2, "ffn_dim": 48, "attention_heads": 4}),
    _case("bart", "BartModel", "seq2seq"),
    _case("marian", "MarianModel", "seq2seq"),
    _case("plbart", "PLBartModel", "seq2seq"),
    _case("nllb_moe", "NllbMoeModel", "seq2seq"),
    _case("aimv2", "Aimv2TextModel", extra={}, config="Aimv2TextConfig"),
    _case("siglip", "SiglipTextModel", extra={}),
    _case("metaclip_2", "MetaClip2TextModel", extra={}),
    *(_case("esm", "EsmModel", extra={}, changes={"position_embedding_type": kind})
      for kind in ("rotary", "absolute")),
    _case("esm", "EsmModel", extra={}, changes={"position_embedding_type": "relative_key"},
          found="error", text="does not support relative_key embeddings"),
    _case("videomae", "VideoMAEModel", "given", {"pixel_values": (2, 4, 3, 16, 16)},
          changes={"num_frames": 4, "tubelet_size": 2}),
    _case("vivit", "VivitModel", "given", {"pixel_values": (2, 4, 3, 16, 16)},
          changes={"num_frames": 4, "tubelet_size": [2, 4, 4]}),
    _case("vit_mae", "ViTMAEModel", "given", {**_PIXELS, "noise": (2, 16)}),
    _case("vitpose_backbone", "VitPoseBackbone", "given", _PIXELS,
          changes={"image_size": [16, 16], "patch_size": [8, 8], "num_experts": 1}),
    _case("yolos", "YolosModel", "given", _PIXELS, changes={"image_size": [16, 16]}),
    _case("smolvlm", "SmolVLMVisionTransformer", "given", _PIXELS),
    _case("florence2", "Florence2VisionBackbone", "given", {"hidden_states": (2, 3, 32, 32)},
          changes={"embed_dim": [16, 32], "depths": [1, 1], "num_heads": [2, 4],
                   "num_groups": [2, 4], "patch_size": [4, 2], "patch_stride": [4, 2],
                   "patch_padding": [0, 0], "patch_prenorm": [False, True], "window_size": 4}),
    _case("audio_spectrogram_transformer", "ASTModel", "given", {"input_values": (2, 16, 16)},
          changes={"max_length": 16, "frequency_stride": 4, "time_stride": 4}),
    _case("voxtral", "VoxtralEncoder", "given", {"input_features": (2, 16, 32)},
          changes={"max_source_positions": 16}),
    _case("speech_to_text", "Speech2TextModel", "given",
          {"input_features": (2, 24, 16), "decoder_input_ids": ("ids", (2, 8)),
           "attention_mask": ("array", [[1] * 24, [1] * 16 + [0] * 8])},
          changes={"input_feat_per_channel": 16, "conv_channels": 16, "max_source_positions": 64,
                   "max_target_positions": 64}),
    _case("moonshine", "MoonshineModel", "given",
          {"input_values": (2, 4000), "decoder_input_ids": ("ids", (2, 8))},
          changes={"encoder_num_attention_heads": 4, "decoder_num_attention_heads": 4}),
    _case("dia", "DiaEncoder", extra={}, config="DiaEncoderConfig"),
    _case("parakeet", "ParakeetEncoder", "given",
          # MindSpore's CPU softmax of a row that is -inf throughout, which eager attention asks
          # for where rows are padded, gives what the memory held.
          {"input_features": (2, 64, 16)},
          changes={"subsampling_conv_channels": 8, "scale_input": True}),
    _case("phi4_multimodal", "Phi4MultimodalAudioModel", "given",
          {"hidden_states": (2, 32, 80), "mask": None},
          changes={"ext_pw_out_channel": 32, "num_blocks": 2, "nemo_conv_channels": 32,
                   # mindone takes it for what is kept.
                   "dropout_rate": 1.0},
          found="error", text="no attribute 'forward_embeddings'"),
    _case("timesfm", "TimesFmModel", "given",
          {"past_values": (2, 128), "past_values_padding": ("array", [[0.0] * 128] * 2),
           "freq": ("array", [[0], [1]])},
          changes={"context_length": 128}),
    _case("vjepa2", "VJEPA2Model", "given", {"pixel_values_videos": (2, 4, 3, 16, 16)},
          changes={"crop_size": 16, "frames_per_clip": 4, "pred_hidden_size": 24,
                   "pred_num_attention_heads": 4, "pred_num_hidden_layers": 2,
                   "pred_num_mask_tokens": 2},
          found="error", text="Select CPU operator[Sin]"),
    _case("efficientloftr", "EfficientLoFTRAttention", "given",
          {"hidden_states": (2, 8, 256), "encoder_hidden_states": (2, 8, 256),
           "position_embeddings": None},
          config="EfficientLoFTRConfig", arguments=(0,),
          changes={"hidden_size": 256, "num_attention_heads": 8, "num_key_value_heads": 8}),
    _case("evolla", "EvollaForProteinText2Text", found="error",
          text="KeyError: 'mindspore_nsa'"),
    _case("blt", "BltModel", changes={
        "encoder_config": {"hidden_size_global": 32}, "decoder_config": {"hidden_size_global": 32},
        "patcher_config": {"hidden_size_global": 32}}),
    _case("ijepa", "IJepaModel", "given", _PIXELS, found="error", text="KeyError: 'mindspore_nsa'"),
    _case("eomt", "EomtAttention", "given", {"hidden_states": (2, 8, 32)}, config="EomtConfig"),
    _case("llama4", "Llama4ForCausalLM", "given", {"input_ids": ("ids", (2, 8)), **_NO_CACHE}),
    _case("llama4", "Llama4VisionModel", "given", _PIXELS, config="Llama4VisionConfig",
          changes={"intermediate_size": 128, "projector_input_dim": 32,
                   "projector_output_dim": 32}),
    _case("sam2", "Sam2Attention", "given",
          dict.fromkeys(("query", "key", "value"), (2, 1, 8, 32)),
          config="Sam2MaskDecoderConfig"),
    _case("sam2_video", "Sam2VideoAttention", "given",
          dict.fromkeys(("query", "key", "value"), (2, 1, 8, 32)),
          config="Sam2VideoMaskDecoderConfig"),
    _case("sam_hq", "SamHQAttention", "given",
          dict.fromkeys(("query", "key", "value"), (2, 1, 8, 32)),
          config="SamHQMaskDecoderConfig"),
]  # fmt: skip

_WORDS = {
    "equal": "as eager attention",
    "eager": "eager attention: mindone does not ask for another",
    "refused": "refused",
    "error": "error of mindone or MindSpore",
    "not run": "not run",
}


def table():
    """Lines of the table of docs/mindone.md: families by what becomes of them."""
    groups = {}
    for case in CASES:
        changes = case.get("changes", {})
        kind = " with a window" if "use_sliding_window" in changes else ""
        kind = kind or ("" if case["inputs"] != "given" else " (encoder or layer)")
        if "position_embedding_type" in changes:
            kind = f" ({changes['position_embedding_type']})"
        what = _WORDS[case["found"]] + (f": `{case['text']}`" if case["text"] else "")
        groups.setdefault(what, set()).add(case["family"] + kind)
    return ["| | |", "|---|---|", *(
        f"| {what} | {', '.join(sorted(names))} |" for what, names in groups.items()
    )]  # fmt: skip
