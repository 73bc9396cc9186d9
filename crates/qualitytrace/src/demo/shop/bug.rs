//! The bugs of the shop.

/// A realistic mistake in the shop's code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    SlowPayment,
    NPlusOneQueries,
    LostAsyncStep,
    SwallowedError,
    MissingAttribute,
    WrongTotal,
    DuplicateCharge,
}

impl Bug {
    /// Every bug, in the order in which they are listed.
    pub(crate) const ALL: [Self; 7] = [
        Self::SlowPayment,
        Self::NPlusOneQueries,
        Self::LostAsyncStep,
        Self::SwallowedError,
        Self::MissingAttribute,
        Self::WrongTotal,
        Self::DuplicateCharge,
    ];

    /// Its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::SlowPayment => "slow-payment",
            Self::NPlusOneQueries => "n-plus-one-queries",
            Self::LostAsyncStep => "lost-async-step",
            Self::SwallowedError => "swallowed-error",
            Self::MissingAttribute => "missing-attribute",
            Self::WrongTotal => "wrong-total",
            Self::DuplicateCharge => "duplicate-charge",
        }
    }

    /// One line about the mistake.
    pub(crate) fn description(self) -> &'static str {
        match self {
            Self::SlowPayment => "The payment service waits for a slow card network.",
            Self::NPlusOneQueries => {
                "The cart service asks its database once more for every item in the cart."
            }
            Self::LostAsyncStep => "The gateway sends orders to a queue that has no consumer.",
            Self::SwallowedError => "The gateway confirms an order although the card was declined.",
            Self::MissingAttribute => "The worker no longer says which order it works on.",
            Self::WrongTotal => "The gateway forgets the quantities when it adds up the prices.",
            Self::DuplicateCharge => "The gateway repeats a charge that had already succeeded.",
        }
    }

    /// Looks up a bug by its name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|bug| bug.name() == name)
    }
}
