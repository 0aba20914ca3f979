"""The scaling study: many training runs, planned, made, interrupted, gone on with, and collected.

    linattn study corpora --novels ELTEC.zip --code FOLDER      once: the text, as bytes with a hash
    linattn study scaling --out DIR                             on all GPUs of this machine

A *trial* is one training run, made of data alone (``trial``, ``plan``). Its *place* is a folder that one
process at a time may claim (``place``). The *loop* trains it without a word to the host between evaluations
(``loop``). *Workers*, one for each device, take the trials of a study one after the other (``work``); a
*launcher* starts them (``launch``).
"""

from linattn_study.plan import STUDIES
from linattn_study.trial import ARCHITECTURES, MAIN_SIZES, SIZES, Trial

__all__ = ["ARCHITECTURES", "MAIN_SIZES", "SIZES", "STUDIES", "Trial"]
