"""Simulators of a storage service (discrete-event) and of a web shop, which emit traces whose faults are
known."""
