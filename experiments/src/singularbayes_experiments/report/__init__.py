"""Records → tables, figures and pages. No module here imports Keras."""
