"""The only code that touches the machine; everything here turns the machine into Facts."""
