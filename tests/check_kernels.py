"""Run numerical tests, goldens and scores under every kernel of linear algebra that this processor offers.

OpenBLAS chooses its kernel by processor, numpy its loops: a result that hangs on either is red on somebody
else's machine. Run by `make check-kernels`; arguments go to pytest.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

KERNELS: Final = ("Haswell", "SkylakeX", "Nehalem")
"""With AVX2, with AVX-512, with neither."""
TESTS: Final = ("tests/unit", "tests/golden", "tests/evaluation", "tests/property")
_WIDE_LOOPS: Final = """
import numpy._core._multiarray_umath as loops
print(*(name for name in loops.__cpu_dispatch__
        if loops.__cpu_features__[name] and (name.startswith("AVX512") or name == "X86_V4")))
"""
_KERNEL_IN_USE: Final = """
import scipy.linalg, threadpoolctl
pools = threadpoolctl.threadpool_info()
print(*{pool["architecture"] for pool in pools if pool["internal_api"] == "openblas"})
"""


def _printed(code: str, environment: dict[str, str]) -> list[str]:
    """Words that a program prints in an environment."""
    run = [sys.executable, "-c", code]
    return subprocess.run(run, env=environment, check=True, capture_output=True, text=True).stdout.split()


def _environments() -> Iterator[tuple[str, dict[str, str]]]:
    """Yield (name, environment) of the kernels there are, numpy's loops of 512 bits on, then off."""
    wide = " ".join(_printed(_WIDE_LOOPS, dict(os.environ)))
    for loops in dict.fromkeys(("", wide)):
        for kernel in KERNELS:
            environment = {**os.environ, "OPENBLAS_CORETYPE": kernel, "NPY_DISABLE_CPU_FEATURES": loops}
            used = _printed(_KERNEL_IN_USE, environment)
            if used == [kernel]:
                yield (
                    f"{kernel}, numpy without {loops}" if loops else f"{kernel}, numpy as it is",
                    environment,
                )
            else:
                print(
                    f"{kernel}: this processor or build uses {' '.join(used) or 'none'} instead", flush=True
                )


def main(arguments: Sequence[str]) -> int:
    """Run the tests once an environment; 1 if any run fails."""
    failed = []
    for name, environment in _environments():
        print(f"\n=== {name}", flush=True)
        pytest = [Path(sys.executable).with_name("pytest"), "-q", "-n", "auto", "--dist", "loadfile"]
        marks = ["-m", "not bench and not chaos and not browser"]
        if subprocess.run([*pytest, *marks, *(arguments or TESTS)], env=environment).returncode:
            failed.append(name)
    print("\nFailed under: " + "; ".join(failed) if failed else "\nAll kernels agree.")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
