"""Programs of others that call tfgpu: assistants, notebooks, test runners."""
