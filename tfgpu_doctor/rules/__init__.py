"""The rules: pure decisions over facts and the matrix, a file for each layer of the stack."""
