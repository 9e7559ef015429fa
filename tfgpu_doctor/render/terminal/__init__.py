"""Text for people: plain where the output is not a terminal."""
