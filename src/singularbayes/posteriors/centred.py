"""A prior around given values, one centre and one width per weight: the initial values, or what other data taught."""

import keras

from singularbayes.posteriors import priors


@keras.saving.register_keras_serializable(package="singularbayes")
class Centred(priors.Prior):
    """w = centre + width · u with u from another prior; centres and widths are kept with the weights, untrained.

    Centres start at the initial means and widths at 1, so `Centred(Normal(0.03))` is N(initial value, 0.03²): a prior
    that has seen no data, as `Anchored(0.03)` is. `centre_prior` moves both. KL(q ‖ p) does not change when all values
    are shifted and scaled alike, so a factor hands (loc − centre)/width and scale/width to the prior of u.

    Args:
        prior: that of u.

    >>> import singularbayes as sb
    >>> layer = sb.layers.Dense(8, posterior=sb.LowRank(4, prior=sb.Centred(sb.Normal(0.03))))
    """

    has_centres = True

    def __init__(self, prior="normal"):
        self.prior = priors.get_prior(prior)
        if self.prior.has_centres:
            raise ValueError(f"Centred needs a prior without centres of its own; got prior={self.prior!r}.")
        if self.prior.by_column:
            raise ValueError(f"Centred needs a prior of single weights; got prior={self.prior!r}, of whole columns.")

    @property
    def unit_scale_prior(self) -> priors.ScalePrior | None:  # type: ignore[override]
        return self.prior if isinstance(self.prior, priors.ScalePrior) else None

    def log_density(self, w, xp=keras.ops):
        return self.prior.log_density(w, xp)

    def kl(self, family, loc, scale, keys=None):
        return self.prior.kl(family, loc, scale, keys)

    def kl_bound(self, family, loc, scale):
        return self.prior.kl_bound(family, loc, scale)

    def kl_exact(self, family, loc, scale):
        return self.prior.kl_exact(family, loc, scale)

    def kl_upper(self, family, loc, scale):
        return self.prior.kl_upper(family, loc, scale)

    @property
    def has_kl_upper(self):
        return self.prior.has_kl_upper

    def get_config(self):
        return {"prior": keras.saving.serialize_keras_object(self.prior)}

    def __repr__(self) -> str:
        return f"Centred({self.prior!r})"
