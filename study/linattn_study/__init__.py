"""Run the scaling study: many training runs, planned, trained, interrupted, resumed, and collected.

    linattn study corpora --novels ELTEC.zip --code FOLDER      once: the text, as bytes with a hash
    linattn study scaling --out DIR                             on all GPUs of this machine

A *trial* is one training run, made of data alone (``trial``, ``plan``). Its *run folder* can be locked by
one process at a time (``run_dir``). The *loop* trains it without a word to the host between evaluations
(``loop``, ``device_trainer``). *Workers*, one for each device, take the trials of a study one after the
other (``work``); a *launcher* starts them (``launch``). ``collect`` makes tables of what they found,
``scaling`` fits laws to them, ``findings`` says what is in them.
"""

from linattn_study.plan import STUDIES
from linattn_study.trial import ARCHITECTURES, MAIN_SIZES, SIZES, Trial

__all__ = ["ARCHITECTURES", "MAIN_SIZES", "SIZES", "STUDIES", "Trial"]
