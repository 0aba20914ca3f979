"""Shard a model over ranks (FSDP2), and bring its parts together for a checkpoint.

Each rank keeps its part of every weight and of the optimiser's moments. The whole weights of a block are
gathered before it computes and forgotten afterwards. torch's part of this takes a second to import, which is
why it is imported where it is needed, and why a part of a tensor is told by its ``device_mesh``.
"""

import warnings
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn


def shard_model(model: nn.Module) -> nn.Module:
    """Shard a model in place over all ranks: each block of ``model.blocks`` by itself, then the rest.

    Args:
        model: on its device; an optimiser made before it is sharded has other parameters.

    Returns:
        The model.
    """
    from torch.distributed.fsdp import fully_shard

    # It warns of outputs that are views, which nobody must change in place; a loss changes nothing.
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view")
    blocks: Iterable[nn.Module] = getattr(model, "blocks", ())
    for block in blocks:
        fully_shard(block)
    fully_shard(model)
    return model


def gather(tree: Any) -> Any:
    """Return a state dict with whole tensors in place of parts; what is whole stays the same object.

    All ranks must call it, as often as there are parts.

    Args:
        tree: dicts, lists and tuples of tensors and other values.
    """
    if _is_part(tree):
        return tree.full_tensor()
    if isinstance(tree, dict):
        return {key: gather(value) for key, value in tree.items()}
    return [gather(value) for value in tree] if isinstance(tree, list) else tree


def scatter(whole: Any, part: Any) -> Any:
    """Return this rank's part of a whole tensor, if ``part`` is such a part; else what was given.

    Args:
        whole: a tensor that all ranks have, or anything.
        part: a tensor that lies on the ranks as the result shall.
    """
    if not _is_part(part) or not isinstance(whole, Tensor) or whole.shape != part.shape:
        return whole
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(whole.to(part.device), part.device_mesh, part.placements)


def scatter_model(whole: dict[str, Any], model: nn.Module) -> dict[str, Any]:
    """Return a model's state dict of whole tensors as this rank's parts, where the model has parts."""
    parts = model.state_dict()
    return {name: scatter(value, parts.get(name)) for name, value in whole.items()}


def scatter_optimizer(whole: dict[str, Any], optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Return an optimiser's state dict of whole tensors as parts; moments lie as their weights do."""
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    state = {
        number: {name: scatter(value, weights[number]) for name, value in moments.items()}
        for number, moments in whole["state"].items()
    }
    return whole | {"state": state}


def find_plain_class(model: nn.Module) -> type:
    """Return the class that a model had before it was sharded: FSDP2 puts one of its own before it."""
    return next(cls for cls in type(model).__mro__ if not cls.__name__.startswith("FSDP"))


def _is_part(value: Any) -> bool:
    """Return whether a value is a tensor of which each rank has a part (a DTensor)."""
    return hasattr(value, "device_mesh")
