//! Memory budgets for requests and responses that are under way.

mod shares;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;

use self::shares::{Room, Share, Shares};
use crate::base::semaphore::ResizableSemaphore;

/// Permits are counted in units of this many bytes, because a semaphore counts in 32 bits.
const UNIT: u64 = 1024;

/// A number of bytes, shared by all requests under way.
#[derive(Debug, Clone)]
pub struct Budget {
    semaphore: Arc<ResizableSemaphore>,
    shares: Arc<Shares>,
}

/// Bytes taken from the budget; released when dropped.
#[derive(Debug)]
pub struct Lease {
    budget: Budget,
    permits: OwnedSemaphorePermit,
    /// The bytes requested so far; the permits cover them.
    bytes: u64,
    /// The share of its sender, where senders share the budget.
    share: Option<Share>,
}

/// The budget does not have enough bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryBudgetError {
    /// Not now: other requests hold them.
    Now,
    /// Never: not even the whole budget would be enough.
    Ever {
        /// The limit in bytes.
        limit: u64,
    },
}

impl Budget {
    /// Creates a budget of this many bytes.
    pub fn new(bytes: u64) -> Self {
        Self { semaphore: Arc::new(ResizableSemaphore::new(units(bytes))), shares: Arc::default() }
    }

    /// Resizes the budget; bytes leased beyond the new size are retired when released.
    pub(crate) fn resize(&self, bytes: u64) {
        self.semaphore.resize(units(bytes));
    }

    /// Returns the size in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.semaphore.size() as u64 * UNIT
    }

    /// Creates an empty lease.
    pub fn lease(&self) -> Result<Lease, MemoryBudgetError> {
        let permits = self.semaphore.try_take_many(0).ok_or(MemoryBudgetError::Now)?;
        Ok(Lease { budget: self.clone(), permits, bytes: 0, share: None })
    }

    /// Creates an empty lease for one of many senders, which share the budget fairly when it is short.
    pub(crate) fn lease_for(&self, sender: String) -> Result<Lease, MemoryBudgetError> {
        Ok(Lease { share: Some(Share::of(&self.shares, sender)), ..self.lease()? })
    }

    fn room(&self) -> Room {
        Room { size: self.size(), free: self.semaphore.free() as u64 * UNIT }
    }
}

impl Lease {
    /// Takes more bytes.
    pub fn grow(&mut self, bytes: u64) -> Result<(), MemoryBudgetError> {
        let wanted = (self.bytes + bytes).div_ceil(UNIT);
        let missing = wanted.saturating_sub(self.permits.num_permits() as u64);
        if missing > 0 {
            let room = self.budget.room();
            let most = if self.share.is_some() { Share::most(room) } else { room.size };
            let missing = u32::try_from(missing).ok().filter(|_| wanted <= most / UNIT);
            let missing = missing.ok_or(MemoryBudgetError::Ever { limit: most })?;
            if self.share.as_ref().is_some_and(|share| !share.admits(bytes, room)) {
                return Err(MemoryBudgetError::Now);
            }
            self.permits.merge(self.budget.semaphore.try_take_many(missing).ok_or(MemoryBudgetError::Now)?);
        }
        self.set(self.bytes + bytes);
        Ok(())
    }

    fn set(&mut self, bytes: u64) {
        self.bytes = bytes;
        if let Some(share) = &mut self.share {
            share.set(bytes);
        }
    }

    /// Takes more bytes if a quarter of the budget stays free: what a slow sender holds must not lock out the others.
    pub(crate) fn grow_sparingly(&mut self, bytes: u64) -> Result<(), MemoryBudgetError> {
        let all = self.budget.semaphore.size() as u64;
        let (wanted, reserve) = ((self.bytes + bytes).div_ceil(UNIT), all / 4);
        if wanted > all - reserve {
            return Err(MemoryBudgetError::Ever { limit: (all - reserve) * UNIT });
        }
        let missing = wanted.saturating_sub(self.permits.num_permits() as u64);
        if missing > 0 && (self.budget.semaphore.free() as u64) < missing + reserve {
            return Err(MemoryBudgetError::Now);
        }
        self.grow(bytes)
    }

    /// Takes more bytes, and waits up to `longest` while other requests hold them.
    pub(crate) async fn grow_within(
        &mut self,
        bytes: u64,
        longest: Duration,
    ) -> Result<(), MemoryBudgetError> {
        match self.grow(bytes) {
            Err(MemoryBudgetError::Now) => {}
            done => return done,
        }
        let missing = (self.bytes + bytes).div_ceil(UNIT).saturating_sub(self.permits.num_permits() as u64);
        let missing = u32::try_from(missing).unwrap_or(u32::MAX);
        let permits = tokio::time::timeout(longest, self.budget.semaphore.take_many(missing)).await;
        self.permits.merge(permits.ok().flatten().ok_or(MemoryBudgetError::Now)?);
        self.set(self.bytes + bytes);
        Ok(())
    }

    /// Releases all but this many bytes.
    pub(crate) fn shrink_to(&mut self, bytes: u64) {
        let kept = usize::try_from(bytes.div_ceil(UNIT)).unwrap_or(usize::MAX);
        let surplus = self.permits.num_permits().saturating_sub(kept);
        drop(self.permits.split(surplus));
        self.set(self.bytes.min(bytes));
    }

    /// Returns the bytes requested so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
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
        assert_eq!(second.grow(5 * UNIT), Err(MemoryBudgetError::Now));
        drop(first);
        assert_eq!(second.grow(5 * UNIT), Ok(()));
        assert_eq!(second.grow(6 * UNIT), Err(MemoryBudgetError::Ever { limit: 10 * UNIT }));
        second.shrink_to(2 * UNIT);
        assert_eq!(second.grow_sparingly(4 * UNIT), Ok(()), "6 of 10 are taken");
        let mut third = budget.lease().unwrap();
        assert_eq!(
            third.grow_sparingly(3 * UNIT),
            Err(MemoryBudgetError::Now),
            "the last quarter is for others"
        );
        assert_eq!(second.grow_sparingly(3 * UNIT), Err(MemoryBudgetError::Ever { limit: 8 * UNIT }));
        assert_eq!(third.grow(3 * UNIT), Ok(()));
    }

    #[test]
    fn a_flooding_sender_leaves_room_for_the_others() {
        let budget = Budget::new(64 * UNIT);
        let take = |sender: &str, units: u64| {
            let mut lease = budget.lease_for(sender.to_owned()).unwrap();
            lease.grow(units * UNIT).map(|()| lease)
        };
        let flood: Vec<Lease> = (0..64).map_while(|_| take("flooder", 4).ok()).collect();
        assert_eq!(flood.len(), 14, "an eighth is left");
        assert_eq!(take("flooder", 64).err(), Some(MemoryBudgetError::Ever { limit: 56 * UNIT }));
        let polite = take("polite", 4).unwrap();
        drop(flood);
        let flood: Vec<Lease> = (0..64).map_while(|_| take("flooder", 4).ok()).collect();
        assert_eq!(flood.len(), 11, "a quarter is left now that there is another one");
        assert!(take("third", 16).is_ok(), "a fourth of the whole is its share");
        drop(polite);
    }

    #[tokio::test]
    async fn room_is_waited_for_and_not_for_ever() {
        let budget = Budget::new(10 * UNIT);
        let (mut first, mut second) = (budget.lease().unwrap(), budget.lease().unwrap());
        first.grow(6 * UNIT).unwrap();
        let longest = Duration::from_secs(5);
        assert_eq!(
            second.grow_within(5 * UNIT, Duration::from_millis(20)).await,
            Err(MemoryBudgetError::Now)
        );
        let (waited, ()) = tokio::join!(second.grow_within(5 * UNIT, longest), async { drop(first) });
        assert_eq!(waited, Ok(()));
    }
}
