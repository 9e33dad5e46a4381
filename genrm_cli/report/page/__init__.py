"""The page: its data, its charts, its template, style and script."""
