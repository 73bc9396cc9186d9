//! Waits with a deadline and a name: a wait that ends without success says what it waited for.

use std::fmt::Display;
use std::time::{Duration, Instant};

/// The deadline of a wait that has no reason for another one: long enough for a loaded machine.
pub const DEADLINE: Duration = Duration::from_mins(2);

/// The pauses between two looks: the first, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));

/// What one look has seen: whether a condition holds, a value that may be there, or a value or what is there instead.
pub trait Seen {
    /// What the wait returns.
    type Value;

    /// The value, or a text for the message of a wait that fails.
    fn value(self) -> Result<Self::Value, String>;
}

impl Seen for bool {
    type Value = ();

    fn value(self) -> Result<(), String> {
        self.then_some(()).value()
    }
}

impl<T> Seen for Option<T> {
    type Value = T;

    fn value(self) -> Result<T, String> {
        self.ok_or_else(String::new)
    }
}

impl<T, E: Display> Seen for Result<T, E> {
    type Value = T;

    fn value(self) -> Result<T, String> {
        self.map_err(|instead| format!("; last seen: {instead}"))
    }
}

/// Looks again and again until there is a value, and returns it.
///
/// # Panics
/// With the name of the wait, if there is no value before the deadline.
pub async fn eventually<S: Seen>(
    deadline: Duration,
    what: impl Display,
    look: impl AsyncFnMut() -> S,
) -> S::Value {
    try_eventually(deadline, what, look).await.unwrap_or_else(|failure| panic!("{failure}"))
}

/// The same, for a caller that reports what did not happen.
pub async fn try_eventually<S: Seen>(
    deadline: Duration,
    what: impl Display,
    mut look: impl AsyncFnMut() -> S,
) -> Result<S::Value, String> {
    let mut instead = String::new();
    let looks = async {
        for pause in pauses() {
            match look().await.value() {
                Ok(value) => return value,
                Err(text) => instead = text,
            }
            tokio::time::sleep(pause).await;
        }
        unreachable!("the pauses have no end")
    };
    // A look that hangs ends with the deadline, too.
    let found = tokio::time::timeout(deadline, looks).await;
    found.map_err(|_| failure(deadline, &what, &instead))
}

/// The blocking form of [`eventually`], for tests without a runtime. A look must not hang.
///
/// # Panics
/// With the name of the wait, if there is no value before the deadline.
pub fn eventually_blocking<S: Seen>(
    deadline: Duration,
    what: impl Display,
    look: impl FnMut() -> S,
) -> S::Value {
    try_eventually_blocking(deadline, what, look).unwrap_or_else(|failure| panic!("{failure}"))
}

/// The same, for a caller that reports what did not happen.
pub fn try_eventually_blocking<S: Seen>(
    deadline: Duration,
    what: impl Display,
    mut look: impl FnMut() -> S,
) -> Result<S::Value, String> {
    let end = Instant::now() + deadline;
    for pause in pauses() {
        match look().value() {
            Ok(value) => return Ok(value),
            Err(instead) if Instant::now() >= end => return Err(failure(deadline, &what, &instead)),
            Err(_) => std::thread::sleep(pause),
        }
    }
    unreachable!("the pauses have no end")
}

/// Waits for a future: the end of a stream, of a process or of a task.
///
/// # Panics
/// With the name of the wait, if the future is not ready before the deadline.
pub async fn within<T>(deadline: Duration, what: impl Display, future: impl Future<Output = T>) -> T {
    let ready = tokio::time::timeout(deadline, future).await;
    ready.unwrap_or_else(|_| panic!("{}", failure(deadline, &what, "")))
}

/// Each pause is twice as long as the one before, up to the longest.
fn pauses() -> impl Iterator<Item = Duration> {
    std::iter::successors(Some(PAUSES.0), |pause| Some(PAUSES.1.min(*pause * 2)))
}

fn failure(deadline: Duration, what: &impl Display, instead: &str) -> String {
    format!("not within {deadline:?}: {what}{instead}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn a_wait_returns_the_first_value() {
        let mut looks = 0;
        let found = eventually(DEADLINE, "the third look", async || {
            looks += 1;
            (looks == 3).then_some(looks)
        });
        assert_eq!(found.await, 3);
        eventually(DEADLINE, "a condition", async || true).await;
        assert_eq!(within(DEADLINE, "a future", std::future::ready(1)).await, 1);
        assert_eq!(eventually_blocking(DEADLINE, "a result", || Ok::<_, &str>(2)), 2);
    }

    #[tokio::test]
    #[should_panic(expected = "not within 20ms: the run ends; last seen: running")]
    async fn a_wait_ends_with_its_deadline_and_says_what_it_waited_for() {
        eventually(SHORT, "the run ends", async || Err::<(), _>("running")).await;
    }

    #[tokio::test]
    #[should_panic(expected = "not within 20ms: the server answers")]
    async fn a_look_that_hangs_ends_with_the_deadline() {
        eventually(SHORT, "the server answers", async || std::future::pending::<bool>().await).await;
    }

    #[tokio::test]
    #[should_panic(expected = "not within 20ms: the stream ends")]
    async fn a_future_that_hangs_ends_with_the_deadline() {
        within(SHORT, "the stream ends", std::future::pending::<()>()).await;
    }

    #[test]
    fn a_blocking_wait_says_what_it_waited_for() {
        let failed = try_eventually_blocking(SHORT, "a port is free", || false);
        assert_eq!(failed, Err("not within 20ms: a port is free".to_owned()));
    }
}
