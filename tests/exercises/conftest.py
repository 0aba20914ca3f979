"""Let one worker have all tests of a question: what it has computed for one of them, it has for the next."""

import pytest

from linattn_exercises.questions import Question
from tests.exercises.notebooks import name_of


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group tests whose parameter is a question under its name, for ``--dist loadgroup``."""
    for item in items:
        question = item.callspec.params.get("question") if hasattr(item, "callspec") else None
        if isinstance(question, Question):
            item.add_marker(pytest.mark.xdist_group(name_of(question)))
