"""Sampling probabilities that records tell (ALGORITHMS A.7)."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from ingest.codecs.values.attributes import AttributeTable

_HEX_DIGITS = 14
_SPACE = 1 << 56


def probability_of_tracestate(state: str) -> float | None:
    """p = 1 − T/2^56 of the threshold in `ot=…;th:T;…` (OpenTelemetry); None if there is none or it is wrong.

    T is 1 to 14 hex digits, trailing zeros left out: `th:8` is one half, `th:0` is one.
    """
    for member in state.split(","):
        key, _, value = member.strip().partition("=")
        if key != "ot":
            continue
        for part in value.split(";"):
            name, _, threshold = part.partition(":")
            if name == "th" and 1 <= len(threshold) <= _HEX_DIGITS and threshold.isascii():
                try:
                    rejected = int(threshold.ljust(_HEX_DIGITS, "0"), 16)
                except ValueError:
                    return None
                return (_SPACE - rejected) / _SPACE if rejected < _SPACE else None
    return None


def sample_rates(trace_state: pa.Array | None, attributes: AttributeTable, n_spans: int) -> pa.Array:
    """[n_spans] float64 in (0, 1], null where unknown: tracestate first, then Jaeger's sampler tags."""
    rates = pa.nulls(n_spans, pa.float64())
    if trace_state is not None and len(trace_state) != trace_state.null_count:
        states = trace_state.dictionary_encode()
        known = pa.array([probability_of_tracestate(s) for s in states.dictionary.to_pylist()], pa.float64())
        rates = known.take(states.indices)
    if "sampler.param" in attributes.keys and "sampler.type" in attributes.keys:
        kind = attributes.first_text("sampler.type", n_spans)
        parameter = pc.if_else(
            pc.equal(kind, "probabilistic"), attributes.first_text("sampler.param", n_spans), None
        )
        distinct = parameter.dictionary_encode()
        known = pa.array([_rate(t) for t in distinct.dictionary.to_pylist()], pa.float64())
        rates = pc.coalesce(rates, known.take(distinct.indices))
    return rates


def _rate(text: str) -> float | None:
    try:
        rate = float(text)
    except ValueError:
        return None
    return rate if 0 < rate <= 1 else None
