"""`tfgpu fleet collect`: one command of tfgpu on each node, started by an engine that the cluster has, Ray or Slurm."""
