"""Page of a lake without a window: how to send data, with lines to copy."""

from __future__ import annotations

from analyze.report.blocks import Block, Part, Text, code
from flowdiff.serve.answer import Answer
from flowdiff.serve.site import Site

REFRESH_SECONDS = 5


def empty(site: Site) -> Answer:
    """Explain how to get the first requests into the lake; reloads periodically."""
    exists = site.known().info is not None
    first = (
        "The lake has no finished window yet: live requests appear when their window is over."
        if exists
        else "There is no lake here yet."
    )
    ways = (
        (
            "Send OpenTelemetry traces",
            f"flowdiff up --lake {site.lake}",
            "takes OTLP on ports 4317 (gRPC) and 4318 (HTTP); not needed where it runs already",
        ),
        (
            "Import files of traces",
            f"flowdiff import TRACES.json --lake {site.lake}",
            "OTLP, Jaeger, Zipkin, or records",
        ),
        (
            "Read a topic of Kafka",
            f"flowdiff ingest --bootstrap HOST:9092 --topics traces --lake {site.lake}",
            "continuously, exactly once",
        ),
        ("Try it", "flowdiff demo", "a simulated service before and after a change"),
    )
    sdk = "export OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"
    blocks: list[Block] = [Text(first)]
    for title, line, note in ways:
        blocks.append(Part(title, (Text(line, "pre"),), note=note))
    blocks.insert(
        2, Part("Point a service at it", (Text(sdk, "pre"),), note="where it starts, then start it")
    )
    return Answer(
        "Nothing to show yet",
        (*blocks, Text(("This page looks again every ", code(f"{REFRESH_SECONDS} s"), "."), "dim")),
        data={"windows": 0, "commands": [line for _, line, _ in ways]},
        refresh_seconds=REFRESH_SECONDS,
    )
