raise RuntimeError("tfgpu imports that of the standard library")
