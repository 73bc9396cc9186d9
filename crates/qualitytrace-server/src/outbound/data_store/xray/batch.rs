//! Traces that several runs ask for at the same time, in one request.
//!
//! A run that finds no free turn waits; the next request takes it along. The run that sends the request hands the others
//! their parts.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tokio::sync::{Semaphore, SemaphorePermit, mpsc};

use crate::outbound::data_store::error::FetchError;

/// Traces of one request: the most that the service allows.
const MAX_TRACES: usize = 5;
/// Requests at one time.
const TURNS: usize = 2;
/// Parts that wait for their run.
const PARTS: usize = 4;

/// The traces that wait for the next request.
#[derive(Debug)]
pub(super) struct Batches {
    waiting: Mutex<VecDeque<Waiting>>,
    turns: Semaphore,
}

/// A trace that a run waits for.
#[derive(Debug)]
pub(super) struct Waiting {
    /// The trace, as X-Ray writes it.
    pub(super) id: String,
    parts: mpsc::Sender<Part>,
}

/// What a run gets of a request that another one sent.
#[derive(Debug)]
pub(super) enum Part {
    /// Segment documents.
    Documents(Vec<String>),
    /// There are no more.
    Done,
    /// The request failed.
    Failed(FetchError),
}

impl Waiting {
    /// Hands a part to the run. One that has ended meanwhile does not need it.
    pub(super) async fn give(&self, part: Part) {
        let _ = self.parts.send(part).await;
    }
}

/// What a run does next.
pub(super) enum Next<'a> {
    /// It sends the request, for its own trace and for those of others.
    Send(SemaphorePermit<'a>, Vec<Waiting>),
    /// It gets a part of a request of another run.
    Get(Part),
    /// The other run has ended before it was done.
    Again,
}

/// A run among those that wait.
#[derive(Debug)]
pub(super) struct Place<'a> {
    batches: &'a Batches,
    id: String,
    parts: mpsc::Receiver<Part>,
}

impl Batches {
    pub(super) fn new() -> Self {
        Self { waiting: Mutex::default(), turns: Semaphore::new(TURNS) }
    }

    /// Waits for a trace.
    pub(super) fn wait(&self, id: &str) -> Place<'_> {
        let (sender, parts) = mpsc::channel(PARTS);
        let waiting = Waiting { id: id.to_owned(), parts: sender };
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push_back(waiting);
        Place { batches: self, id: id.to_owned(), parts }
    }

    /// Takes a trace and others that wait. `None` if another request has taken it.
    fn take(&self, id: &str) -> Option<Vec<Waiting>> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let own = waiting.iter().position(|waiting| waiting.id == id)?;
        waiting.remove(own);
        // Two runs may wait for the same trace, which is asked for once: the other one has its turn later.
        let mut others: Vec<Waiting> = Vec::new();
        let mut left = VecDeque::new();
        while let Some(other) = waiting.pop_front() {
            let is_twice = other.id == id || others.iter().any(|taken| taken.id == other.id);
            if others.len() + 1 < MAX_TRACES && !is_twice && !other.parts.is_closed() {
                others.push(other);
            } else if !other.parts.is_closed() {
                left.push_back(other);
            }
        }
        *waiting = left;
        Some(others)
    }
}

impl<'a> Place<'a> {
    /// Waits for a turn, or for a part of what another run fetched.
    pub(super) async fn next(&mut self) -> Next<'a> {
        let mut is_taken = false;
        loop {
            tokio::select! {
                biased;
                part = self.parts.recv() => return part.map_or(Next::Again, Next::Get),
                Ok(turn) = self.batches.turns.acquire(), if !is_taken => match self.batches.take(&self.id) {
                    Some(others) => return Next::Send(turn, others),
                    None => is_taken = true,
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the ids that are asked for in one request, of the run that sends it.
    async fn sent<'a>(place: &mut Place<'a>) -> (SemaphorePermit<'a>, Vec<Waiting>) {
        match place.next().await {
            Next::Send(turn, others) => (turn, others),
            Next::Get(part) => panic!("{part:?}"),
            Next::Again => panic!("again"),
        }
    }

    fn ids(waiting: &[Waiting]) -> Vec<&str> {
        waiting.iter().map(|waiting| waiting.id.as_str()).collect()
    }

    #[tokio::test]
    async fn runs_that_find_no_turn_are_taken_along() {
        let batches = Batches::new();
        let (mut first, mut second) = (batches.wait("a"), batches.wait("b"));
        let (turn, alone) = sent(&mut first).await;
        // The first request is under way: `b` has gone with it.
        assert_eq!(ids(&alone), ["b"]);
        let _other_turn = batches.turns.acquire().await.unwrap();
        let mut places: Vec<Place<'_>> = "cdefghc".chars().map(|id| batches.wait(&id.to_string())).collect();
        alone[0].give(Part::Documents(vec!["{}".to_owned()])).await;
        alone[0].give(Part::Done).await;
        assert!(matches!(second.next().await, Next::Get(Part::Documents(_))));
        assert!(matches!(second.next().await, Next::Get(Part::Done)));
        drop((turn, alone));
        // One that has ended is not asked for.
        drop(places.remove(1));
        let (_turn, others) = sent(&mut places[0]).await;
        assert_eq!(ids(&others), ["e", "f", "g", "h"]);
        // The one that sends ends before it is done.
        drop(others);
        assert!(matches!(places[1].next().await, Next::Again));
    }
}
