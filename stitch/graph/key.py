"""The category key of a template: 128-bit BLAKE2b of an injective serialisation (A.3.3).

The design's key is a multiset of refinement colours; a template is already canonical, so its exact bytes
serve, and refinement-equivalent graphs that are not isomorphic can no longer share a key.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from itertools import chain

from stitch.graph.template import Template

KEY_BYTES = 16


def digest(*parts: bytes) -> bytes:
    """[16] BLAKE2b-128 of the concatenation; callers make it injective."""
    return blake2b(b"".join(parts), digest_size=KEY_BYTES).digest()


@lru_cache(maxsize=65_536)
def name_bytes(component: str, point: str, label: str | None) -> bytes:
    """Injective bytes of a node's name: each part with its length; a null label differs from an empty one."""
    parts = [component.encode(), point.encode()]
    if label is not None:
        parts.append(label.encode())
    return bytes([len(parts)]) + b"".join(struct.pack("<I", len(part)) + part for part in parts)


def template_key(template: Template) -> str:
    """L0 category key, 32 hex digits. Equal iff every column of the template is equal (2^-128)."""
    n, n_edges, n_responses = len(template.kind), len(template.edges), len(template.responses)
    numbers = struct.pack(
        f"<{n}B{n}B{n}?{n}i{n}i{2 * n_edges}I{n_responses}I",
        *template.kind,
        *template.side,
        *template.deferred,
        *template.mate,
        *template.parent,
        *chain.from_iterable(template.edges),
        *template.responses,
    )
    names = map(name_bytes, template.component, template.point, template.label)
    return structure_key((n, n_edges, n_responses), (numbers,), names)


def structure_key(sizes: tuple[int, int, int], numbers: Iterable[bytes], names: Iterable[bytes]) -> str:
    """The key from what `template_key` hashes, for callers that have it in other form.

    sizes: nodes, edges, responses. numbers: kind, side, deferred (one byte a node), mate, parent (int32), src
    and dst of each edge in turn, responses (uint32), little endian. names: `name_bytes` of the nodes.
    """
    return digest(b"flowdiff L0\0", struct.pack("<3I", *sizes), *numbers, *names).hex()
