"""Models that are not loaded whole mix tokens as our ops do: transformers' own functions give the same."""

import inspect

import torch
from torch.nn.functional import normalize, silu
from transformers import MiniMaxConfig
from transformers.models.minimax.modeling_minimax import MiniMaxLightningAttention
from transformers.models.qwen3_next.modeling_qwen3_next import torch_recurrent_gated_delta_rule

from linattn_ref import ops
from linattn_ref.mixers.tnl import annealing, slopes
from tests.support.closeness import assert_close

B, T, H, K, V = 2, 70, 2, 8, 12


def test_qwen3_next_has_the_gated_delta_rule_with_grouped_keys():
    q, k = torch.randn(2, B, T, H, K)
    v, beta, log_decay = torch.randn(B, T, 2 * H, V), torch.rand(B, T, 2 * H), -torch.rand(B, T, 2 * H)
    in_torch = inspect.unwrap(torch_recurrent_gated_delta_rule)  # not FLA's kernel in its place
    theirs, state = in_torch(q, k, v, log_decay, beta, output_final_state=True, use_qk_l2norm_in_kernel=True)
    q, k = (normalize(x, dim=-1).repeat_interleave(2, dim=2) for x in (q, k))
    ours = ops.chunk_delta_rule(q, k, v, beta, log_decay)
    assert_close("output", ours.output, theirs, 1e-5)
    assert_close("state", ours.state, state, 1e-5)


def test_minimax_has_lightning_attention_with_the_slopes_of_tnl():
    config = MiniMaxConfig(hidden_size=H * K, num_attention_heads=H, num_hidden_layers=4, block_size=16)
    config.layer_types = ["linear_attention"] * 4
    for layer in range(4):
        theirs = MiniMaxLightningAttention(config, layer)
        decay = -slopes(H, "code") * annealing(layer, 4, "code")
        assert_close("slopes", decay, -theirs.slope_rate.flatten(), 1e-5)
        x = torch.randn(B, T, H * K)
        with torch.no_grad():
            q, k, v = silu(theirs.qkv_proj(x)).unflatten(-1, (H, 3 * K)).chunk(3, -1)
            o = ops.chunk_linear_attention(q, k, v, -theirs.slope_rate.flatten(), scale=1.0).output
            ours = theirs.out_proj(theirs.output_gate(x).sigmoid() * theirs.norm(o.flatten(2)))
            assert_close("output", ours, theirs(x, (x, x), None)[0], 1e-5)
