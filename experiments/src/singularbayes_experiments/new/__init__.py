"""The paper's experiments and those beyond it: YAML presets → runs → records → pages."""
