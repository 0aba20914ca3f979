"""What tests of the study's findings share."""

from collections.abc import Mapping
from typing import Any

from linattn_ref.findings import variants
from linattn_ref.findings.losses import chosen
from linattn_ref.scaling import Interval


def rows(table: str, **wanted: Any) -> list[Mapping[str, Any]]:
    """Last evaluations of a study's runs."""
    return chosen([one.row for one in variants.variants(table)], **wanted)


def holds(found: Interval | None, value: float = 0.0) -> bool:
    assert found is not None
    return found.low <= value <= found.high
