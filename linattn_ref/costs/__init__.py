"""Count what a model costs: parameters, FLOPs, bytes of state; exactly, and by the paper's own formulas."""

from linattn_ref.costs import paper
from linattn_ref.costs.accounting import flops_exact, flops_per_token, n_parameters, state_bytes

__all__ = ["flops_exact", "flops_per_token", "n_parameters", "paper", "state_bytes"]
