"""`tfgpu fleet`: many nodes as one picture, and how their reports are collected."""
