"""What systems other than Linux answer, behind one object: `here.other()`."""
