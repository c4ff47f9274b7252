"""Tell people and programs of incidents: a webhook, an Alertmanager, a log event to a Collector."""
