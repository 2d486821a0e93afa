"""Fields of MindFormers' TransformerConfig, 1.9 to 2.1, that change nothing in the layers.

Some are of kernels and masks of MindFormers' own attention, some of variants that NSA replaces, the
others of other parts of a model. A test compares them with the classes.
"""

IRRELEVANT_FIELDS = frozenset(
    """
    activation_func activation_func_clamp_value actual_vocab_size add_mlp_fc1_bias_linear
    add_mlp_fc2_bias_linear apply_residual_connection_post_layernorm apply_rope_fusion
    attention_softmax_in_fp32 attn_allgather attn_allreduce attn_reduce_scatter batch_size
    bias_dropout_fusion bias_swiglu_fusion block_size calculate_per_token_loss
    callback_moe_droprate chunk_loss_num coeff comp_comm_parallel comp_comm_parallel_degree
    compute_dtype context_parallel_algo cp_comm_type cpu_offloading cpu_offloading_num_layers
    data_parallel_size default_prefetch disable_lazy_inline dispatch_global_max_bs
    dsa_index_share_loss dsa_index_share_topk_offload dsa_index_skip_topk_offset
    dsa_index_topk_freq dsa_indexer_head_dim dsa_indexer_loss_coeff dsa_indexer_n_heads
    dsa_indexer_topk dsa_indexer_types dsa_indexer_use_sparse_loss dsa_warmup_layerwise_backward
    embedding_params_dtype enable_expert_relocation enable_hc_head enable_hyper_connections
    experimental_attention_variant expert_model_parallel_size expert_relocation_freq
    expert_relocation_initial_iteration expert_tensor_parallel_size ffn_allgather ffn_allreduce
    ffn_hidden_size ffn_reduce_scatter first_k_dense_replace fp16_lm_cross_entropy
    fp32_residual_connection fused_norm gated_linear_unit gradient_aggregation_group
    group_wise_a2a hidden_act hidden_dropout hierarchical_context_parallel_sizes ignore_token_id
    init_method init_method_std input_layout is_dynamic layernorm_compute_dtype mask_func_type
    max_position_embeddings mhc_init_gating_factor mhc_layernorm_epsilon mhc_sinkhorn_iterations
    micro_batch_num mla_qkv_concat model_architecture moe_apply_probs_on_input moe_aux_loss_coeff
    moe_expert_capacity_factor moe_ffn_hidden_size moe_grouped_gemm moe_layer_freq
    moe_n_hash_layers moe_permute_fusion moe_router_bias_update_rate moe_router_dtype
    moe_router_enable_expert_bias moe_router_force_expert_balance moe_router_fusion
    moe_router_group_topk moe_router_load_balancing_type moe_router_num_groups
    moe_router_pre_softmax moe_router_score_function moe_router_topk
    moe_router_topk_scaling_factor moe_shared_expert_intermediate_size moe_shared_expert_overlap
    moe_token_dispatcher_type moe_token_drop_policy moe_z_loss_coeff mp_comm_recompute
    mtp_loss_scaling_factor mtp_num_layers norm_topk_prob npu_nums_per_device num_blocks
    num_decoder_layers num_encoder_layers num_layers num_moe_experts num_residual_streams offset
    op_swap output_layer_init_method pad_token_id parallel_config
    parallel_optimizer_comm_recompute param_init_std_rules pet_config pipeline_model_parallel_size
    post_process pre_process print_expert_load print_separate_loss quantization_config recompute
    recompute_slice_activation rotary_dtype sandwich_norm select_comm_recompute
    select_comm_recompute_exclude select_recompute select_recompute_exclude seq_length
    sequence_parallel shared_expert_num softmax_compute_dtype sparse_mode tie_word_embeddings
    topk_method ulysses_degree_in_cp untie_embeddings_and_output_weights use_alltoall
    use_attention_mask use_attn_mask_compression use_eod_attn_mask_compression use_eod_reset
    use_flash_attention use_fused_mhc use_fused_mla use_fused_ops_topkrouter
    use_interleaved_weight_layout_mlp use_pad_tokens use_shared_expert_gating
    virtual_pipeline_model_parallel_size vocab_emb_dp vocab_size window_attn_skip_freq
    """.split()
)
