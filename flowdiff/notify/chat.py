"""Incoming webhooks of chats: messages from templates that a user can replace.

A template is Jinja and renders a JSON document. Its variables are those of `messages.facts`, and `title`
(severity, state, component), `mark` (a symbol for the state), `event` and `link` (address of the report, or
empty). Filters: `slack` escapes text for Slack's mrkdwn, `markdown` for Markdown, `tojson` writes a JSON
string.
"""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Final

from jinja2 import StrictUndefined, Template, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from analyze.report.markdown import inline
from flowdiff.notify.messages import facts
from flowdiff.notify.outlet import JSON, Context, EventOutlet
from flowdiff.notify.post import Message
from flowdiff.notify.settings import ChatReceiver, NotifySettings
from schemas.errors import ConfigError, InputError
from schemas.incidents import Incident, IncidentEvent, IncidentExamples
from schemas.report.findings import ChangeKind, Interval

_MARKS: Final = {"resolved": "✅", "accepted": "☑️"}
_SLACK: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class Chat(EventOutlet[ChatReceiver]):
    """Chat with an incoming webhook as a receiver; the default template has the name of the receiver's
    settings key."""

    def __init__(self, name: str, receiver: ChatReceiver, context: Context) -> None:
        super().__init__(name, receiver, context)
        self._template = ChatTemplate.of(name, receiver.template, context.settings)

    def message(self, event: IncidentEvent) -> Message:
        """Make the message about an event from the chat's template."""
        return self.addressed(self._template.body(event), JSON)


class ChatTemplate:
    """Jinja template for a chat's messages."""

    def __init__(self, name: str, text: str, settings: NotifySettings) -> None:
        """Compile a template and test it. name: name of the template in error messages.

        Raises ConfigError if the template does not render JSON for an example event.
        """
        self._settings = settings
        environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined, autoescape=False)
        # Jinja's `tojson` writes < and > as escapes, and our own letters are wanted as they are.
        environment.filters.update(
            tojson=lambda text: json.dumps(text, ensure_ascii=False),
            slack=lambda text: str(text).translate(_SLACK),
            markdown=lambda text: inline(str(text)),
        )
        try:
            self._template: Template = environment.from_string(text)
            for reports in ("https://reports.example.org", ""):
                self._made(_example(), settings.model_copy(update={"reports": reports}))
        except (TemplateError, ValueError, TypeError, ArithmeticError) as error:
            raise ConfigError(
                f"{name}: the template makes no message: {error}.", remedy="See docs/internals/notifying.md."
            ) from None

    @classmethod
    def of(cls, chat: str, file: Path | None, settings: NotifySettings) -> ChatTemplate:
        """Template from `file`, or the shipped one for `chat` (`slack`, `teams`). Raises ConfigError,
        InputError.
        """
        if file is None:
            shipped = resources.files("flowdiff.notify") / "templates" / f"{chat}.json.jinja"
            return cls(f"notify.{chat}", shipped.read_text(encoding="utf-8"), settings)
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise InputError(f"notify.{chat}.template: '{file}' cannot be read: {reason}.") from error
        return cls(f"notify.{chat}.template", text, settings)

    def body(self, event: IncidentEvent) -> bytes:
        """JSON message about an event. Raises TemplateError, and ValueError if the template renders no
        JSON.
        """
        return self._made(event, self._settings)

    def _made(self, event: IncidentEvent, settings: NotifySettings) -> bytes:
        incident = event.incident
        known = facts(incident, settings)
        where = known["component"] or known["root"]
        made = self._template.render(
            **known,
            title=f"{incident.severity}, {incident.state}: {where}",
            mark=_MARKS.get(incident.state, "🔴" if incident.severity == "critical" else "🟠"),
            event=event.kind,
            link=known["report"] if settings.reports else "",
        )
        return json.dumps(json.loads(made), ensure_ascii=False).encode("utf-8", "replace")


def _example() -> IncidentEvent:
    """Make an event with text in every field, to test a template."""
    incident = Incident(
        id="example",
        kind=ChangeKind.SLOWER,
        direction="worse",
        lane="fast",
        component='a "component"',
        operation="operation",
        state="open",
        severity="critical",
        began_from_ns=0,
        began_to_ns=0,
        opened_ns=0,
        changed_ns=0,
        headline="headline",
        before=1.0,
        after=2.0,
        unit="us",
        interval=Interval(low=0.5, high=1.5),
        contribution_us=1.0,
        examples=IncidentExamples(reference=("r",), problem=("p",)),
        report="0",
    )
    return IncidentEvent(id="0", incident_id="example", kind="opened", at_ns=0, incident=incident)
