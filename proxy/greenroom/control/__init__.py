"""What operators, gates and monitoring talk to: the control API, health, metrics, and the log lines about instances."""
