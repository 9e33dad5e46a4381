"""Ask a judge to compare two responses, and read its verdict."""
