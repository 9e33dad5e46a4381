"""How the judges are asked about a group."""
