"""The notation page names every form that exists, and none that does not."""

import re
from pathlib import Path

from linattn_ref import ops

PAGE = Path(__file__).parents[2] / "book" / "notation.md"


def test_page_names_the_registered_forms_and_no_others() -> None:
    forms = "|".join({form.form for form in ops.FORMS} | {"step"})
    named = set(re.findall(rf"`((?:{forms})_\w+)`", PAGE.read_text("utf-8")))
    steps = {f"step_{form.op}" for form in ops.FORMS}
    assert named - {"chunk_size"} == {form.function.__name__ for form in ops.FORMS} | steps


def test_every_op_has_the_step_that_the_page_names() -> None:
    steps = re.findall(r"`(step_\w+)`", PAGE.read_text("utf-8"))
    assert set(steps) == {f"step_{form.op}" for form in ops.FORMS}
    assert all(callable(getattr(ops, step)) for step in steps)
