"""Make operators of PyTorch of the functions that launch kernels, and call them as directly as may be.

As a custom op a launcher is one operation for ``torch.compile``, autograd, autocast and modes that look on
(fake tensors, profilers of shapes). The way through torch's dispatcher costs the host about as much as two
launches, forward and backward more than that; where nobody looks on, the same launcher is called without it.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from linattn_kernels.hardware import run_on_device_of_q

NAMESPACE = "linattn"
PLAIN = {Tensor, nn.Parameter, type(None), int, float, bool}  # others, like fake tensors, have rules


class KernelOperator:
    """Call a launcher, as an operator where something looks on.

    Attributes:
        launch: the function that launches kernels; its first argument is a tensor, on whose device it runs.
        operator: the same, as torch's dispatcher knows it.
        function: the same with its gradient, as ``torch.autograd.Function``; None where it has none.
        mutated: indices of the arguments that it writes into.
    """

    def __init__(self, name: str, launcher: Callable, mutated: tuple[str, ...]) -> None:
        self.launch = run_on_device_of_q(launcher)
        self._custom_op = torch.library.custom_op(f"{NAMESPACE}::{name}", self.launch, mutates_args=mutated)
        self.register_fake = self._custom_op.register_fake
        self.operator = getattr(getattr(torch.ops, NAMESPACE), name).default
        self.function: type[torch.autograd.Function] | None = None
        names = [argument.name for argument in self.operator._schema.arguments]
        self.mutated = [names.index(argument) for argument in mutated]

    def register_autograd(self, backward: Callable, setup_context: Callable) -> None:
        """Register the gradient, as for ``torch.library.register_autograd``."""
        self._custom_op.register_autograd(backward, setup_context=setup_context)

        def forward(ctx: Any, *args: Any) -> Any:  # a ``setup_context`` of its own takes torch 10 us to call
            output = self.launch(*args)
            setup_context(ctx, args, output)
            return output

        members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
        self.function = type(self._custom_op._name, (torch.autograd.Function,), members)

    def __call__(self, *args: Any) -> Any:
        """Launch the kernels."""
        if torch.compiler.is_compiling() or is_in_torch_dispatch_mode() or not _are_plain(args):
            return self.operator(*args)
        if torch.is_grad_enabled() and any(isinstance(x, Tensor) and x.requires_grad for x in args):
            return self.operator(*args) if self.function is None else self.function.apply(*args)
        for i in self.mutated:
            torch.autograd.graph.increment_version(args[i])
        return self.launch(*args)


def _are_plain(args: tuple) -> bool:
    """Return whether no argument has rules of its own, and no transform of ``torch.func`` is at work."""
    return PLAIN.issuperset(map(type, args)) and not torch._C._are_functorch_transforms_active()


def kernel_operator(name: str, mutated: tuple[str, ...] = ()) -> Callable[[Callable], KernelOperator]:
    """Decorate a launcher: it becomes the operator ``linattn::name``, which writes into ``mutated``."""
    return lambda launcher: KernelOperator(name, launcher, mutated)
