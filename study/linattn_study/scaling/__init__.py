"""Fit scaling laws to training runs: what loss, parameters and tokens are best for a budget of compute.

``envelopes`` brings runs to common budgets and reads the best of each; ``parametric`` fits one function of
parameters and tokens to all evaluations.
"""

from linattn_study.scaling.envelopes import (
    Envelope,
    find_crossings,
    find_iso_flop_minima,
    find_lower_envelope,
    fit_laws,
)
from linattn_study.scaling.parametric import Parametric, Surface, fit_parametric, fit_surface
from linattn_study.scaling.runs import PFLOPS_DAY, Interval, Law, PowerLaw, Run, fit_power_law, group_runs

__all__ = [
    "PFLOPS_DAY",
    "Envelope",
    "Interval",
    "Law",
    "Parametric",
    "PowerLaw",
    "Run",
    "Surface",
    "find_crossings",
    "find_iso_flop_minima",
    "find_lower_envelope",
    "fit_laws",
    "fit_parametric",
    "fit_power_law",
    "fit_surface",
    "group_runs",
]
