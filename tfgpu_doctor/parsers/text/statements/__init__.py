"""What a person states of the machine: issue forms, tables, and short lines that name versions."""
