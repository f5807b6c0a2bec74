"""The paper's theory beyond the library: bounds as printed, losses' constants, and bounds against the rank.

`printed` has the formulas that are not sound, each with its defect, so that corrections can be checked;
`loss_constants` is the paper's table of constants; `against_rank` draws its figure of bounds.
"""
