"""What a form executes: no loop over time, no table of T x T."""

from dataclasses import replace

import pytest
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from linattn_ref.ops import Form
from tests.ops.every_form import CHUNKED, LINEAR, rows
from tests.ops.ladder import call_of, forms_of, inputs_of
from tests.ops.ladder_cases import Case


class Operations(TorchDispatchMode):
    """Count operations, and remember the most numbers that one of them made.

    Attributes:
        count: number of operations.
        largest: of any operation's result, the numbers in its storage.
    """

    def __init__(self) -> None:
        super().__init__()
        self.count = self.largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.count += 1
        if isinstance(result, Tensor):
            self.largest = max(self.largest, result.untyped_storage().nbytes() // result.element_size())
        return result


def operations(form: Form, case: Case) -> Operations:
    """Return what a form executes on a case."""
    x = inputs_of(case)
    with Operations() as seen:
        call_of(form, case)(x)
    return seen


CHUNK_LINEAR = tuple(form for form in LINEAR if form.form == "chunk")


@pytest.mark.parametrize(("form", "case"), rows(CHUNK_LINEAR, T=1, B=1, H=1, K=3, V=2, chunk_size=64))
def test_linear_chunk_form_has_no_loop_over_time(form: Form, case: Case) -> None:
    """Four times the tokens are two more doublings: the same few operations more, at any length."""
    short, middle, long = (operations(form, replace(case, T=T)).count for T in (256, 1024, 4096))
    assert long - middle == middle - short <= 20
    loop = [operations(LINEAR[0], replace(case, T=T)).count for T in (32, 128)]
    assert loop[1] > 3.5 * loop[0]  # the counter sees a loop where there is one


@pytest.mark.parametrize(("form", "case"), rows(CHUNKED, T=1024, B=1, H=1, K=3, V=2, chunk_size=16))
def test_chunk_form_never_holds_a_table_of_t_times_t(form: Form, case: Case) -> None:
    assert operations(form, case).largest < case.T**2 / 8
    for other in forms_of(form.op):
        assert other.form != "parallel" or operations(other, case).largest >= case.T**2


@pytest.mark.parametrize(("form", "case"), rows(CHUNKED, T=256, B=1, H=1, K=3, V=2))
def test_chunk_size_is_what_sizes_the_work(form: Form, case: Case) -> None:
    """It changes no result, so that it is not ignored must be seen in what is executed."""
    sizes = [operations(form, replace(case, chunk_size=C)) for C in (4, 8, 256)]
    assert len({(seen.count, seen.largest) for seen in sizes}) == 3
