"""Commands about the settings and the manual."""
