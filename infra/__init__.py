"""What is outside the process: the event store and its logs, the doorbell, files, settings, and what is secret."""
