"""The place where one cost overtakes another, of costs for which it is known."""

import pytest

from linattn_book.crossings import describe_crossing


def test_crossing_of_two_power_laws_is_where_they_are_equal() -> None:
    tokens = (128, 256, 1024, 4096)
    level, rising = {n: 5.0 for n in tokens}, {n: 0.01 * n for n in tokens}
    assert describe_crossing(rising, level) == "near 500"
    assert describe_crossing(level, rising) == "below 128"
    with pytest.raises(ValueError, match="expected numbers that exceed"):
        describe_crossing({n: 4.0 for n in tokens}, level)
