"""What is outside the process: the event store, the doorbell, the settings, chance."""
