"""URIs, compression, lines and records: how data is named and encoded, independently of its storage."""
