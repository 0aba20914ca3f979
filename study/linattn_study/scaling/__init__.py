"""Fit scaling laws to training runs: what loss, parameters and tokens are best for a budget of compute.

``envelopes`` brings runs to common budgets and reads the best of each; ``parametric`` fits one function of
parameters and tokens to all evaluations.
"""

from linattn_study.scaling.envelopes import Envelope, crossings, fit_laws, iso_flop, lower_envelope
from linattn_study.scaling.parametric import Parametric, Surface, fit_parametric, fit_surface
from linattn_study.scaling.runs import PFLOPS_DAY, Interval, Law, PowerLaw, Run, fit_power_law, runs_of

__all__ = [
    "PFLOPS_DAY",
    "Envelope",
    "Interval",
    "Law",
    "Parametric",
    "PowerLaw",
    "Run",
    "Surface",
    "crossings",
    "fit_laws",
    "fit_parametric",
    "fit_power_law",
    "fit_surface",
    "iso_flop",
    "lower_envelope",
    "runs_of",
]
