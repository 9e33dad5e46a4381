"""Have a judge grade, rank or sort responses by stated rubrics, and read what it says."""
