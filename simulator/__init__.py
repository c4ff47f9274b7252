"""A discrete-event storage service that emits traces with known truth."""
