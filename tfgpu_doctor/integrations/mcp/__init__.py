"""`tfgpu mcp`: the commands as tools of the Model Context Protocol, over standard input and output."""
