"""Small systems that somebody made up, told as a Collector writes them: spans by service, as OTLP JSON."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field

SERVER, CLIENT, PRODUCER, CONSUMER = 2, 3, 4, 5
"""OTLP's kinds of spans."""


@dataclass
class MadeSystem:
    """Spans of a window, in which a fault acts."""

    rng: random.Random
    fault: str
    sigma: float = 0.25
    """Of the log-normal law of all times."""
    spans: dict[str, list[dict[str, object]]] = field(default_factory=dict)
    """Service -> its spans."""

    def ms(self, mean: float) -> int:
        """A time around so many milliseconds, ns."""
        return int(mean * 1e6 * self.rng.lognormvariate(0, self.sigma))

    def new_id(self, bits: int = 64) -> str:
        """A random id, hex."""
        return f"{self.rng.getrandbits(bits):0{bits // 4}x}"

    def span(
        self,
        trace: str,
        parent: str,
        name: tuple[str, str],
        kind: int,
        times: tuple[int, int],
        *,
        own: str = "",
        failed: bool = False,
        attributes: dict[str, str] | None = None,
    ) -> str:
        """Tell a span of (service, operation); its id, drawn where `own` is not given."""
        own = own or self.new_id()
        told: dict[str, object] = {"traceId": trace, "spanId": own, "name": name[1], "kind": kind}
        told |= {"startTimeUnixNano": str(times[0]), "endTimeUnixNano": str(times[1])}
        told |= {"parentSpanId": parent} if parent else {}
        told |= {"status": {"code": 2}} if failed else {}
        if attributes:
            told["attributes"] = [{"key": k, "value": {"stringValue": v}} for k, v in attributes.items()]
        self.spans.setdefault(name[0], []).append(told)
        return own

    def document(self) -> str:
        """All spans, one line of OTLP JSON."""
        resources = [
            {
                "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]},
                "scopeSpans": [{"spans": spans}],
            }
            for service, spans in self.spans.items()
        ]
        return json.dumps({"resourceSpans": resources})
