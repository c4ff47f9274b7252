"""The run that `make live` sends: without a gap, so that an outage in its report would be one."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np

from flowdiff.simulation import chosen_faults
from simulator.faults import plan_causes
from simulator.output import run
from simulator.run import RunPlan

LIVE = (Path(__file__).resolve().parents[2] / "deploy" / "live.sh").read_text()


def simulated() -> dict[str, str]:
    """Options of the only `simulate` of the script, as its shell expands them."""
    (command,) = re.findall(r"^say simulate((?:.*\\\n)*.*)", LIVE, re.MULTILINE)
    lengths = "\n".join(re.findall(r"^(?:before|during|after)=\d+", LIVE, re.MULTILINE))
    shell = f'{lengths}\nat() {{ echo $1; }}\nstart=0 folder=x\nprintf "%s\\n" {command}'
    words = subprocess.run(
        ["bash", "-euc", shell], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return dict(zip(words[::2], words[1::2], strict=True))


def test_the_run_lasts_until_the_demo_ends_without_a_gap() -> None:
    asked = simulated()
    length_s = sum(int(one) for one in re.findall(r"^(?:before|during|after)=(\d+)", LIVE, re.MULTILINE))
    faults = chosen_faults([asked["--fault"]], (), [float(asked["--fault-start"])])
    causes = tuple(plan_causes(faults, float(asked["--fault-end"])))
    plan = RunPlan(asked["--workload"], int(asked["--requests"]), int(asked["--seed"]), 0.05, causes)
    starts_s = np.sort(
        np.concatenate([one.time_ns[one.first_step[:-1]] for one in run(plan, 0, workers=1).traces]) / 1e9
    )
    assert np.diff(starts_s, prepend=0.0, append=length_s).max() < 3.0
