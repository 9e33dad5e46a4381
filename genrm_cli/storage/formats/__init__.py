"""URIs, compression, lines and records: how data is named and encoded, independent of where it is stored."""
