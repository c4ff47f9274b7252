"""Notifications of incidents: a webhook, an Alertmanager, log events to a Collector."""
