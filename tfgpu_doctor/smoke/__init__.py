"""`tfgpu smoke`: whether a machine can be relied on, within a budget of seconds."""
