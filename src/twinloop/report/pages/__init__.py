"""Report pages: self-contained HTML files about runs, assessments, calibrations and studies."""
