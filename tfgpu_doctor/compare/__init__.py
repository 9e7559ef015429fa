"""What changed between two reports of the doctor, and which change explains a finding. Pure."""
