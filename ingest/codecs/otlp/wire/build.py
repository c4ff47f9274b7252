"""Build the native library with cargo: `python build.py` puts the library beside its sources.

The project's build backend loads this file by its path, so this file imports only the standard library.
Without cargo, or if the build fails, a message is printed and no library is made: it is optional.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).resolve().parent
SOURCES: Final = ("Cargo.toml", "Cargo.lock", "src/*.rs")
_BUILT: Final = {"darwin": "libwire.dylib", "win32": "wire.dll"}.get(sys.platform, "libwire.so")
"""File name of the library that cargo builds."""
LIBRARY: Final = "libwire.native"
"""File name of the installed library; it does not end in `.so`, as Python would take it for an extension
module."""
DIGEST: Final = "libwire.sha256"
"""Name of the file, beside the library, with the SHA-256 of the sources from which the library was built."""


def source_files(folder: Path) -> list[Path]:
    """Source files of the library; empty in an installed wheel, which has only the built library."""
    return sorted(path for pattern in SOURCES for path in folder.glob(pattern))


def source_digest(folder: Path) -> str:
    """SHA-256 of the names and bytes of the library's sources, hex."""
    digest = hashlib.sha256()
    for path in source_files(folder):
        data = path.read_bytes()
        digest.update(f"{path.name} {len(data)}\n".encode())
        digest.update(data)
    return digest.hexdigest()


def build(sources: Path, to: Path, target: Path) -> Path | None:
    """Build the sources in a folder, in release mode, and put the library into the folder `to`.

    target: cargo's target folder. Returns the library's path; None without cargo, or if the build fails, with
    the reason on standard error. An earlier library in `to` is removed.
    """
    library, digest, made = to / LIBRARY, to / DIGEST, to / f"{LIBRARY}.tmp"
    library.unlink(missing_ok=True)
    digest.unlink(missing_ok=True)
    cargo = shutil.which("cargo")
    if cargo is None:
        print("flowdiff: no cargo, so no native library: the portable reader is used", file=sys.stderr)
        return None
    command = [cargo, "build", "--release", "--locked", "--offline", "--quiet"]
    command += ["--manifest-path", str(sources / "Cargo.toml"), "--target-dir", str(target)]
    try:
        subprocess.run(command, check=True, stdout=sys.stderr)
        shutil.copy(target / "release" / _BUILT, made)  # a new file: processes may have the old one mapped
        made.replace(library)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"flowdiff: no native library, the portable reader is used: {error}", file=sys.stderr)
        return None
    digest.write_text(source_digest(sources) + "\n")
    return library


if __name__ == "__main__":
    build(FOLDER, FOLDER, FOLDER.parents[3] / "build" / "wire")
