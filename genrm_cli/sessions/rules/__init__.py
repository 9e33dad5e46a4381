"""What rules can know of a session without understanding it: its form, and certain breaches.

A rule sees the transcript and the scenario only. Everything that needs understanding is asked of a
judge."""
