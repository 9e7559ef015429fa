"""What every part of tfgpu speaks: facts, the report, versions, units. No decisions."""
