"""Rules that judge a session without understanding it: by its form, and by certain breaches.

A rule sees the transcript and the scenario only. Everything that needs understanding is asked of a
judge."""
