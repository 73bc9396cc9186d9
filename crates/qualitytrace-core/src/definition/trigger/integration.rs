//! Other test tools that send the requests.

/// Another test tool, which sends the requests and passes the trace id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Integration {
    /// Cypress.
    Cypress,
    /// Playwright.
    Playwright,
    /// Artillery.
    Artillery,
    /// k6.
    K6,
}

impl Integration {
    /// Every tool.
    pub const ALL: [Self; 4] = [Self::Cypress, Self::Playwright, Self::Artillery, Self::K6];

    /// The expression for the trace id: the tools start their runs with this variable.
    pub const TRACE: &'static str = "${env:TRACE_ID}";

    /// Returns the name used in files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cypress => "cypress",
            Self::Playwright => "playwright",
            Self::Artillery => "artillery",
            Self::K6 => "k6",
        }
    }
}
