"""Training: data, losses, schedules, checkpoints, distillation."""
