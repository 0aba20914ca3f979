"""What tests of the study's findings share."""

from linattn_study.scaling import Interval


def holds(found: Interval | None, value: float = 0.0) -> bool:
    """Return whether an interval, which must be there, holds a value."""
    assert found is not None
    return found.low <= value <= found.high
