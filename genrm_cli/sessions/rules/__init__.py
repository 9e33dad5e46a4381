"""Deterministic checks of therapeutic sessions, each with the words that led to its value.

The rules are advisory, versioned screening: not a clinical judgement, and never the only gate. A
rule sees only the transcript, the scenario and its phrase list. To add a rule, add a module, a
phrase list of the same name, and a name in `genrm_cli.sessions.session_rules`."""
