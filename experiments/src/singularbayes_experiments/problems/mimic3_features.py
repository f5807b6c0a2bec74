"""The 44 features of a stay in MIMIC-III, in one table: where each is charted, its unit, and what is possible.

The paper names the groups and not the features: demographics, the stay, vital signs, and laboratory results (blood
count, metabolic panel, liver, coagulation), "mean and standard deviation per ICU stay where applicable". So this table
is ours. Vital signs have both, laboratory results a mean.

Vital signs come from CHARTEVENTS. CareVue (until 2008) and MetaVision (from 2008) chart them under other item ids, and
the nursery, which is in CareVue, has ids of its own. Laboratory results come from LABEVENTS, one system for all. A
measurement that is not possible is dropped; what is merely far out is for the rule of 8 interquartile ranges
(`mortality_scaling.py`). Ranges hold for newborns too.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Measured:
    """One thing that is measured again and again.

    Args:
        items: item ids, by the system that has them; fahrenheit: those among them in °F, which become °C.
        low, high: possible values, both ends included, in `unit`.
        deviation: whether its standard deviation over the stay is a feature too.
    """

    name: str
    label: str
    unit: str
    low: float
    high: float
    items: dict[str, tuple[int, ...]]
    fahrenheit: tuple[int, ...] = ()
    deviation: bool = False

    @property
    def features(self) -> tuple[str, ...]:
        """What the columns of its features are called."""
        return (f"{self.name}_mean", f"{self.name}_sd") if self.deviation else (f"{self.name}_mean",)


def _vital(name: str, label: str, unit: str, low: float, high: float, **systems: tuple[int, ...]) -> Measured:
    fahrenheit = systems.pop("fahrenheit", ())
    return Measured(name, label, unit, low, high, systems, fahrenheit, deviation=True)


def _lab(name: str, label: str, unit: str, low: float, high: float, *items: int) -> Measured:
    return Measured(name, label, unit, low, high, {"laboratory": items})


VITALS = (
    _vital(
        "heart_rate", "heart rate", "1/min", 1, 300, carevue=(211,), metavision=(220045,)
    ),
    _vital(
        "systolic", "systolic blood pressure", "mmHg", 1, 400,
        carevue=(51, 442, 455, 6701),
        metavision=(220050, 220179, 225309),
        nursery=(3313, 3315, 3317, 3319, 3321, 3323, 3325),
    ),
    _vital(
        "diastolic", "diastolic blood pressure", "mmHg", 1, 300,
        carevue=(8368, 8440, 8441, 8555),
        metavision=(220051, 220180, 225310),
        nursery=(8502, 8503, 8504, 8505, 8506, 8507, 8508),
    ),
    _vital(
        "mean_pressure", "mean blood pressure", "mmHg", 1, 300,
        carevue=(52, 443, 456, 6702),
        metavision=(220052, 220181, 225312),
        nursery=(3312, 3314, 3316, 3318, 3320, 3322, 3324),
    ),
    _vital(
        "respiratory_rate", "respiratory rate", "1/min", 1, 150,
        carevue=(615, 618),
        metavision=(220210, 224690),
        nursery=(3603,),
    ),
    _vital(
        "temperature", "body temperature", "°C", 20, 45,
        carevue=(676, 678),
        metavision=(223761, 223762),
        nursery=(3652, 3654, 3655),
        fahrenheit=(678, 223761, 3652, 3654),
    ),
    _vital(
        "saturation", "oxygen saturation", "%", 1, 100, carevue=(646,), metavision=(220277,), nursery=(834,)
    ),
)  # fmt: skip
LABS = (
    _lab("white_cells", "white blood cells", "K/µL", 0, 1000, 51300, 51301),
    _lab("red_cells", "red blood cells", "M/µL", 0.1, 15, 51279),
    _lab("hemoglobin", "haemoglobin", "g/dL", 0.5, 30, 50811, 51222),
    _lab("hematocrit", "haematocrit", "%", 1, 90, 50810, 51221),
    _lab("platelets", "platelets", "K/µL", 0, 5000, 51265),
    _lab("cell_volume", "mean corpuscular volume", "fL", 30, 200, 51250),
    _lab("cell_hemoglobin", "mean corpuscular haemoglobin", "pg", 5, 80, 51248),
    _lab("cell_spread", "red cell distribution width", "%", 5, 60, 51277),
    _lab("glucose", "glucose", "mg/dL", 1, 3000, 50809, 50931),
    _lab("sodium", "sodium", "mEq/L", 50, 250, 50824, 50983),
    _lab("potassium", "potassium", "mEq/L", 0.5, 30, 50822, 50971),
    _lab("chloride", "chloride", "mEq/L", 30, 250, 50806, 50902),
    _lab("bicarbonate", "bicarbonate", "mEq/L", 1, 100, 50882),
    _lab("urea_nitrogen", "urea nitrogen", "mg/dL", 0, 400, 51006),
    _lab("creatinine", "creatinine", "mg/dL", 0, 150, 50912),
    _lab("calcium", "calcium, total", "mg/dL", 1, 30, 50893),
    _lab("magnesium", "magnesium", "mg/dL", 0.1, 30, 50960),
    _lab("phosphate", "phosphate", "mg/dL", 0.1, 50, 50970),
    _lab("anion_gap", "anion gap", "mEq/L", -20, 100, 50868),
    _lab("alt", "alanine aminotransferase", "IU/L", 0, 50_000, 50861),
    _lab("ast", "aspartate aminotransferase", "IU/L", 0, 50_000, 50878),
    _lab("alkaline_phosphatase", "alkaline phosphatase", "IU/L", 0, 20_000, 50863),
    _lab("bilirubin", "bilirubin, total", "mg/dL", 0, 100, 50885),
    _lab("albumin", "albumin", "g/dL", 0.1, 10, 50862),
    _lab("inr", "international normalised ratio", "1", 0.1, 100, 51237),
    _lab("ptt", "partial thromboplastin time", "s", 1, 500, 51275),
)
MEASURED = VITALS + LABS
# Of the stay itself: label, unit.
OF_STAY = {
    "age": ("age at admission to intensive care, at most 90", "years"),
    "male": ("gender, 1 for male", "1"),
    "hours_before": ("from admission to the hospital to that to intensive care", "hours"),
    "length_of_stay": ("length of the stay in intensive care, known only when it is over", "days"),
}
LEAK = "length_of_stay"
FEATURES = (*OF_STAY, *(name for one in MEASURED for name in one.features))


def names(length_of_stay: bool) -> tuple[str, ...]:
    """Returns the features in the order of the columns.

    Args:
        length_of_stay: whether that is among them. It is not known in the first 48 hours and leaks the outcome: those
            who die early leave early.

    >>> len(names(length_of_stay=True)), len(names(length_of_stay=False))
    (44, 43)
    """
    return tuple(name for name in FEATURES if length_of_stay or name != LEAK)


def markdown() -> str:
    """Returns the table for readers."""
    rows = ["| feature | what | unit | possible | item ids |", "|---|---|---|---|---|"]
    rows += [f"| `{name}` | {label} | {unit} | | |" for name, (label, unit) in OF_STAY.items()]
    for one in MEASURED:
        columns = ", ".join(f"`{name}`" for name in one.features)
        items = "; ".join(f"{system} {', '.join(map(_shown(one), ids))}" for system, ids in one.items.items())
        rows.append(f"| {columns} | {one.label} | {one.unit} | {one.low:,g} to {one.high:,g} | {items} |")
    return "\n".join(rows)


def _shown(one: Measured):
    return lambda item: f"{item} (°F)" if item in one.fahrenheit else str(item)
