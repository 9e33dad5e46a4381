"""Commands about the judge: its quality, its profiles, its journal."""
