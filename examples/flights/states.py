"""Count a year of flights by carrier and state from Maxwell messages, kill the run once, and check every month.

python -m examples.flights.states [--backend delta|hudi-mor|hudi-cow|memory]
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from time import perf_counter

from headwater.testing.kafka_broker import kafka_broker

from .demo import ROOT
from .killing import run_and_kill
from .months import PIPELINE, TOPIC

_MONTHS = [sys.executable, "-m", "examples.flights.months"]
_KILLED_AFTER = f"{PIPELINE} epoch 10:"  # the first of the two epochs of June


def main() -> int:
    """Run the demo; return 0 if every total is right."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--backend", default="delta", help="delta (default), hudi-mor, hudi-cow or memory")
    backend = parser.parse_args().backend
    shutil.rmtree(ROOT / "states", ignore_errors=True)
    with kafka_broker() as broker:
        broker.create_topic(TOPIC)
        os.environ |= {"HEADWATER_BACKEND__NAME": backend, "FLIGHTS_SERVERS": broker.servers}
        began = perf_counter()
        if backend != "memory":  # its tables would be lost with the process
            run_and_kill(_MONTHS, when=_KILLED_AFTER)
        done = subprocess.run(_MONTHS, check=False)
        print(f"\nThe year took {perf_counter() - began:.0f} s on {backend}.")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
