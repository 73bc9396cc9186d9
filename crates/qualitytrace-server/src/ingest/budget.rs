//! Room in memory for what is under way.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use crate::places::Places;

/// Permits are counted in these units, because a semaphore counts in 32 bits.
const UNIT: u64 = 1024;

/// A number of bytes that all requests under way share.
#[derive(Debug, Clone)]
pub struct Budget(Arc<Places>);

/// Bytes taken from the budget; given back when dropped.
#[derive(Debug)]
pub struct Lease {
    budget: Budget,
    permits: OwnedSemaphorePermit,
    /// What was asked for so far, which the permits cover.
    bytes: u64,
}

/// There is too little in the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRoom {
    /// For now: others have it.
    Now,
    /// It would not be enough even if nobody else had any of it.
    Ever {
        /// All that there is, in bytes.
        limit: u64,
    },
}

impl Budget {
    /// A budget of this many bytes.
    pub fn new(bytes: u64) -> Self {
        Self(Arc::new(Places::new(units(bytes))))
    }

    /// From now on it has this many bytes; what is leased beyond that goes as it comes back.
    pub(super) fn resize(&self, bytes: u64) {
        self.0.resize(units(bytes));
    }

    /// A lease for nothing yet.
    pub fn lease(&self) -> Result<Lease, NoRoom> {
        let permits = self.0.try_take_many(0).ok_or(NoRoom::Now)?;
        Ok(Lease { budget: self.clone(), permits, bytes: 0 })
    }
}

impl Lease {
    /// Takes more bytes from the same budget.
    pub fn grow(&mut self, bytes: u64) -> Result<(), NoRoom> {
        let wanted = (self.bytes + bytes).div_ceil(UNIT);
        let missing = wanted.saturating_sub(self.permits.num_permits() as u64);
        if missing > 0 {
            let all = self.budget.0.size() as u64;
            let missing = u32::try_from(missing).ok().filter(|_| wanted <= all);
            let missing = missing.ok_or(NoRoom::Ever { limit: all * UNIT })?;
            self.permits.merge(self.budget.0.try_take_many(missing).ok_or(NoRoom::Now)?);
        }
        self.bytes += bytes;
        Ok(())
    }
}

fn units(bytes: u64) -> usize {
    usize::try_from(bytes / UNIT).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_leased_comes_back_when_the_lease_ends() {
        let budget = Budget::new(10 * UNIT);
        let mut first = budget.lease().unwrap();
        first.grow(6 * UNIT).unwrap();
        let mut second = budget.lease().unwrap();
        assert_eq!(second.grow(5 * UNIT), Err(NoRoom::Now));
        drop(first);
        assert_eq!(second.grow(5 * UNIT), Ok(()));
        assert_eq!(second.grow(6 * UNIT), Err(NoRoom::Ever { limit: 10 * UNIT }));
    }
}
