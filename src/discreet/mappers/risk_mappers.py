"""The estimators: readings and labels in, a mapping out, by scikit-learn's conventions.

``NPOMapper`` keeps the normalised private risk above a floor, ``BayesErrorMapper`` the
older Bayes-error risk, ``NDDMapper`` nothing at all: it is what privacy is paid against.
All three share one way through ``fit`` (``base``); they differ in a few settings. They are for
tables of up to 20000 rows, and refuse more: on larger ones their answers depend on the seed.
"""

from __future__ import annotations

from discreet.errors import InputError
from discreet.mappers.base import PrivacyMapper

__all__ = ["BayesErrorMapper", "NDDMapper", "NPOMapper", "PrivacyMapper"]


class NPOMapper(PrivacyMapper):
    """Keep the normalised private risk above a floor (the paper's NPO).

    Parameters
    ----------
    n_symbols : int, sequence or dict, default=2
        Symbols that a sensor may send; one number for all, or one for each.
    kernel : {"product", "count", "anova", "inverse-multiquadric"} or Kernel
        What the fusion centre's rules can see. "count" sees each sensor alone and
        "anova" combinations of up to ``degree`` sensors; a secret that shows only in
        larger ones escapes them. The other two see all combinations.
    loss : {"logistic", "exponential", "hinge", "square"}, default="logistic"
    privacy_ratio : float, optional
        Share of the largest reachable private risk to keep, in (0, 1); 0.998 if
        nothing else is asked.
    max_advantage : float, optional
        Ask instead that no attacker beat guessing by more: balanced accuracy minus
        1/m, the worst pair of classes counting. The ratio is searched on folds, with standard
        errors to spare as in ``Mapper``: three where sensors depend given the classes, and outputs
        are too many to look at, so that attackers learn, too.
    epsilon : float, optional
        Ask that ``|log p(g|z)/p(g)|`` stay below it for every output z. Searched likewise;
        where the outputs are too many to list it holds by construction.
    ldp_epsilon : float, optional
        Keep log Q(z|x)/Q(z|x') of every sensor below this, which makes the structural
        bound finite by construction.
    reg : float, optional
        Weight lambda of the regulariser in the public risk; 0.3 / n_rows by default.
    private_reg : float, optional
        The same in the private risks; 0.1 / n_rows by default: the attacker gets
        more freedom than the fusion rule.
    relaxed : bool, default=True
        The paper's relaxation of the risks. False takes rules on the symbols
        themselves, possible while the outputs can be listed: it costs less public
        error and keeps less privacy on new rows (docs/decisions).
    pairs : {"all", "reference"}, default="all"
        Guard every pair of private classes, or the first against each other (paper).
    solver : {"fast", "gauss-seidel", "thorough"}, default="fast"
        The second is the paper's pair of algorithms, kept as the reference. The third
        goes on from its answer and never ends worse; for small tables.
    n_restarts : int, default=4
        Random starts of the fast solver.
    binning : {"merged", "quantile", "uniform", "codes", "categories"} or dict
        How numeric columns become codes, for all or by column. "merged", the default, merges
        neighbours among four times as many quantiles that say the same of the facts, if that
        tells more of rows left out, and else is "quantile".
    n_bins : int or dict, default=10
        Most bins of a numeric column.
    n_folds : int, default=5
        Folds of the search for a privacy level, 100 at most.
    decide : {"balanced", "likely"} or dict, default="balanced"
        What decisions about the public fact are good for: the largest balanced accuracy, the
        fewest errors, or the least cost, given what it costs to miss a class, such as
        ``{"fall": 10}``; other classes cost 1. The first two are the same where classes are
        equally frequent. Where one is rare, the most probable class is mostly the other.
    random_state : int or RandomState, optional
        Seeds the learning. It also seeds the symbols that ``transform`` draws, for
        repeatable experiments only: whoever knows or guesses the seed can undo the
        randomness, and such symbols protect nothing. Leave it out and they come from
        the system's cryptographic source.

    Attributes
    ----------
    mapping_ : Mapping
        The learned tables, ready to save, audit or export.
    classes_ : ndarray
        The public classes.
    useful_ : bool
        Whether the decisions are good for anything: on held-out rows the interval of their
        balanced accuracy lies above guessing, and they are not always the same. If not, ``fit``
        has also warned (``UninformativeMappingWarning``). Where ``expected_`` is None, the rows
        that were learned from count instead, which flatter.
    structural_epsilon_ : float
        Bound C1 on what the symbols of one release can say about anything, for any
        distribution and any private fact; infinite if some row is certain.
    expected_ : Expected or None
        What held-out folds showed: the attacker's ``advantage`` and whether what was asked for
        is ``met``; ``public_error`` and ``balanced_accuracy`` of the decisions, beside those of
        guessing (``guessing_error``) and of raw codes (``raw_error``). An estimate, no
        certificate. From 8000 rows on (1500 in 100 groups or more) rows that no design has
        seen try the very mapping; else it is from the folds of the search if a level was searched
        for, or from two designs on half of the rows each. None if the rows cannot be split with
        every class on both sides.
    privacy_ratio_ : float or None
        The ratio in force.
    threshold_, private_risk_, public_risk_ : float
        The private floor theta, the private risk nearest to it (-inf and inf where
        nothing is guarded), and F, on the training rows.
    n_evaluations_ : int
        How often the risks were evaluated in the final design.
    stopped_ : bool
        Whether the work was stopped early.

    Examples
    --------
    >>> import pandas as pd
    >>> from discreet import NPOMapper
    >>> readings = pd.DataFrame({"hall": [0, 1, 2, 3] * 10, "door": [0, 0, 1, 1] * 10})
    >>> fall = [0, 0, 1, 1] * 10
    >>> who = ["a", "b"] * 20
    >>> mapper = NPOMapper(random_state=0).fit(readings, fall, private=who)
    >>> mapper.transform(readings).shape
    (40, 2)
    """

    _method = "npo"


class BayesErrorMapper(PrivacyMapper):
    """Keep the private Bayes-error risk, weights 1/n, above a floor.

    A rare private class hardly counts in this risk: a large Bayes error does not keep
    single outputs from giving it away. Here for comparison. Parameters and attributes
    are those of ``NPOMapper``.

    Examples
    --------
    >>> import pandas as pd
    >>> from discreet import BayesErrorMapper
    >>> readings = pd.DataFrame({"hall": [0, 1, 2, 3] * 10, "door": [0, 0, 1, 1] * 10})
    >>> fall, who = [0, 0, 1, 1] * 10, ["a", "b"] * 20
    >>> mapper = BayesErrorMapper(random_state=0).fit(readings, fall, private=who)
    >>> mapper.mapping_.n_symbols
    [2, 2]
    """

    _method = "bayes-error"
    _normalised = False


class NDDMapper(PrivacyMapper):
    """Minimise the public risk and protect nothing (nonparametric detection).

    What privacy is paid against. The private fact is required all the same, so that an
    audit knows what to look for; it does not influence the tables. Parameters and
    attributes are those of ``NPOMapper``; limits on privacy are refused.

    Examples
    --------
    >>> import pandas as pd
    >>> from discreet import NDDMapper
    >>> readings = pd.DataFrame({"hall": [0, 1, 2, 3] * 10, "door": [0, 0, 1, 1] * 10})
    >>> fall, who = [0, 0, 1, 1] * 10, ["a", "b"] * 20
    >>> mapper = NDDMapper(random_state=0).fit(readings, fall, private=who)
    >>> mapper.useful_
    True
    """

    _method = "ndd"
    _constrained = False
    _advice = "Give more rows, or other sensors."

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in ("privacy_ratio", "max_advantage", "epsilon", "ldp_epsilon"):
            if getattr(self, name) is not None:
                raise InputError(
                    f"{name} was given, but NDDMapper protects nothing. Use NPOMapper."
                )
